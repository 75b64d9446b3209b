"""A report as HTML (`html.py`, with `html.py` and `templates/`), Markdown, JSON or CSV (`data.py`).

Read `html.py` first.
"""
