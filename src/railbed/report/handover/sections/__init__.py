"""The sections of the hand-over page, one file each. Read `state.py` first."""
