"""What runs on a node to record packets; Python's standard library only. Read `recorder.py` first."""
