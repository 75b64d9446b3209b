"""railbed: from one cluster file to a proven RDMA training cluster."""

from importlib.metadata import version

__version__ = version("railbed")
