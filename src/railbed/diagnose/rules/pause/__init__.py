"""Priority flow control: who stops whom, and whether it is obeyed. Read `storm.py` first."""
