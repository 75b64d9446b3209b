"""One file per rule: what it checks, why it matters to training, how to fix it, and the function that judges.

Read `mtu.py` first.
"""
