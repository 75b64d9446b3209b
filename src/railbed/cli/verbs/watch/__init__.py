"""railbed watch: a run on one time axis, in the terminal, on a page, or as records. Read `command.py` first.

`command.py` decides what is watched; `view.py` shows a run, `own.py` samples into one, `page.py` serves it.
"""
