"""railbed watch: a run on one time axis, in the terminal, on a page, or as records. Read `command.py` first.

`command.py` decides what is watched; `view.py` shows a run, `view.py` samples into one, `view.py` serves it.
"""
