"""DSCP, ECN and priority of packets. Read `missing.py` first."""
