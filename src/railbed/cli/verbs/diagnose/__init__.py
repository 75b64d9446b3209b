"""railbed diagnose: `command.py` has the options, `run.py` the work, `show.py` the text."""
