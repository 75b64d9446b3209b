"""railbed bench: `command.py` has the command, `notes.py` what it reports after the run."""
