"""railbed bench: `command.py` has the options, the lists, and what is printed after the run.

Read `command.py` first.
"""
