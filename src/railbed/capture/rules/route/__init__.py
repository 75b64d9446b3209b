"""The way that packets take: its load, its packet size, its ports. Read `mtu.py` first."""
