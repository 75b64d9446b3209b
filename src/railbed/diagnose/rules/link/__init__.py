"""Cables and links: damaged, down, slow or lossy. Read `flap.py` first."""
