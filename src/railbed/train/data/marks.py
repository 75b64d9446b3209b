"""The mark of a trained token in `marks.bin`, for the machine that writes it and for ranks, which may lack numpy."""

from __future__ import annotations

TRAINED = 0x8000
"""The bit of a mark that a trained token has; the others are the number of its document in the row, from 1."""
