"""railbed: from one cluster file to a proven RDMA training cluster."""

__version__ = "0.2.0"
