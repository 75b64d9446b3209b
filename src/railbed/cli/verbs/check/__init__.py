"""railbed check: `command.py` has the options, `run.py` the work, `explain.py` prints what a rule is about."""
