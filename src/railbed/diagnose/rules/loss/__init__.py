"""Packets that did not arrive, or not the first time. Read `receiver_not_ready.py` first."""
