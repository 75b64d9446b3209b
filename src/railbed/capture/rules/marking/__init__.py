"""DSCP, ECN and priority of packets."""
