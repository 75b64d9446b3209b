"""railbed check: `command.py` has the options, `run.py` the work, `explain.py` and `prove.py` the two other modes.

Read `command.py` first.
"""
