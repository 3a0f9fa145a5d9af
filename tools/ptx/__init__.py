"""PTX, the instructions that Triton compiles kernels to for a GPU, computed by numpy: what a GPU does, without one.

A block of threads takes every instruction together, each register being an
array of one number a thread. Only what the kernels of `snapimpute.backends`
use is known; an instruction that is not is an error.

What a GPU leaves open is decided for the worst, in two ways (``hasty``): copies
arrive at once and matrix products read their operands at the last moment, or
copies arrive at the last moment and products read at once. Data that are
overwritten too early, or read too soon, give wrong digits in one of them. Every
byte that is read or written must lie in the memory that it was given. Matrix
products are added up in float64 and rounded to float32 after each instruction.
Not seen is a barrier that is missing between threads: they never part here.

- `numbers`: what registers hold
- `units`: memory, copies, barriers and matrix products
- `reading`: the text of a kernel
- `block`: a block of threads
- `launch`: kernels of Triton, compiled for an H200 and run so
"""
