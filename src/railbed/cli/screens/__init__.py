"""How records are shown. Read `base.py` first.

`base.py` writes JSON lines, `text.py` findings as tables, `progress.py` the progress line; the others are for the verbs
that they are named after, and `choose.py` selects one.
"""
