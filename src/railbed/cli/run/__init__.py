"""A verb at work: `perform.py` shows each record and returns the exit code.

Read `perform.py` first.

`signals.py` is Ctrl-C, SIGTERM and a closed terminal; `unfinished.py` is what remains of an interrupted run.
"""
