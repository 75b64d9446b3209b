"""Whether packets can reach the other end at all, and over which of several ways. Read `mtu.py` first."""
