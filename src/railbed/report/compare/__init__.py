"""Two runs side by side. Read `comparison.py` first.

It decides whether a number changed, `settings.py` lists other differences; `page.py`, `changes.py` show both.
"""
