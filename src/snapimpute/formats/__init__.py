"""Tables in files: any format, wide or one cell a line, in and out."""

from snapimpute.formats.layout import looks_like_triplets
from snapimpute.formats.options import FORMATS, LAYOUTS, MISSING, AlphabetSpec, Options
from snapimpute.formats.read import Content, arranged, read_content, read_file
from snapimpute.formats.triplets import Triplets, missing_cells
from snapimpute.formats.wide import Wide
from snapimpute.formats.write import (
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
