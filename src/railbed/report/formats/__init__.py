"""A report as HTML (`html.py`, with `templates/`), Markdown (`markdown.py`), JSON or CSV (`data.py`).

Read `html.py` first.
"""
