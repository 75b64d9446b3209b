"""A verb's run: `perform.py` first, the loop that stores and shows each record and returns the exit code.

`signals.py` is Ctrl-C, SIGTERM and a closed terminal; `unfinished.py` is what remains of an interrupted run.
"""
