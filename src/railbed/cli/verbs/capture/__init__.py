"""railbed capture: `command.py` has the options, `run.py` the work."""
