"""Rules about cables between a node and a switch: whether both ends agree. Read `mtu.py` first."""
