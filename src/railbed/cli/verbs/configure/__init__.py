"""railbed configure: `command.py` has the options, `run.py` the work, `run.py` the question.

Read `command.py` first.
"""
