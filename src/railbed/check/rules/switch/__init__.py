"""Rules about switches, and about their ports with nodes on them. Read `mtu.py` first."""
