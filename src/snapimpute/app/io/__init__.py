"""Tables in files: any format, wide or one cell a line, in and out."""

from snapimpute.app.io.layout import looks_like_triplets
from snapimpute.app.io.options import FORMATS, LAYOUTS, MISSING, AlphabetSpec, Options
from snapimpute.app.io.read import Content, arranged, read_content, read_file
from snapimpute.app.io.triplets import Triplets, missing_cells
from snapimpute.app.io.wide import Wide
from snapimpute.app.io.write import (
    MATRICES,
    OUTPUTS,
    check_output,
    check_sheet,
    in_plain_words,
    output_format,
    table_format,
    write_array,
    write_frame,
    write_pieces,
    writing,
)

__all__ = [
    "FORMATS",
    "LAYOUTS",
    "MATRICES",
    "MISSING",
    "OUTPUTS",
    "AlphabetSpec",
    "Content",
    "Options",
    "Triplets",
    "Wide",
    "arranged",
    "check_output",
    "check_sheet",
    "in_plain_words",
    "looks_like_triplets",
    "missing_cells",
    "output_format",
    "read_content",
    "read_file",
    "table_format",
    "write_array",
    "write_frame",
    "write_pieces",
    "writing",
]
