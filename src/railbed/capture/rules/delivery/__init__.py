"""Packets that did not arrive, or not the first time, or not in order. Read `lost.py` first."""
