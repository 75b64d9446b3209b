"""Nodes as a whole: silent, cut off, out of memory, with a clock that jumps. Read `silent.py` first."""
