"""What the recorders themselves missed. Read `dropped.py` first."""
