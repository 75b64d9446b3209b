"""railbed diagnose: `command.py` has the options, `run.py` the work, `show.py` the text. Read `command.py` first.

`follow.py` judges a run in progress again and again, and finds what is new since the last time.
"""
