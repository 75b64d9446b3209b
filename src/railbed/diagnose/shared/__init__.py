"""What several rules have in common. Read `compare.py` first."""
