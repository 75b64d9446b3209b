"""RDMA in the wrong priority."""
