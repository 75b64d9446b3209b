"""railbed configure: `command.py` has the options, `run.py` the work, `confirm.py` the question.

Read `command.py` first.
"""
