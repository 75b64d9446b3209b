"""railbed: from one cluster file to a proven RDMA training cluster. Read `cli/main.py` first."""

__version__ = "0.2.0"
