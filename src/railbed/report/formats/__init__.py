"""A report as HTML (`html.py`, with `drawing.py` and `templates/`), Markdown, JSON or CSV (`data.py`).

Read `html.py` first.
"""
