"""QoS of a node's port, read and set with the tool that works there: `dcb` (any driver), else `mlnx_qos` (OFED).

Read `tools.py` first.
"""
