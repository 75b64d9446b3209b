"""Files on nodes: shipped, checked before use, listed and removed. Read `ship.py` first."""
