"""Two runs side by side: open `comparison.py` first.

`judge.py` decides whether a number changed, `settings.py` lists what else differs; `page.py`, `changes.py` show both.
"""
