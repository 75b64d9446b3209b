"""railbed bench: `command.py` has the command, `notes.py` collects what it reports after the run.

Read `command.py` first.
"""
