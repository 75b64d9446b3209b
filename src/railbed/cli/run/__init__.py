"""A verb at work: `perform.py` first, which shows each record and returns the exit code.

`signals.py` is Ctrl-C, SIGTERM and a closed terminal; `unfinished.py` is what remains of an interrupted run.
"""
