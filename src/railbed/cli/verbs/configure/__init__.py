"""railbed configure: `command.py` has the options, `run.py` the work.

Read `command.py` first.
"""
