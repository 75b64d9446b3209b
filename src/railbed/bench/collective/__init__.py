"""railbed's own collective benchmark: one job over all nodes. Read `run.py` first."""
