"""railbed's own collective benchmark: one job over all nodes. Read `job.py` first."""
