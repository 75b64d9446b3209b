"""Congestion control: marks, notifications, and whether senders react. Read `ecn_late.py` first."""
