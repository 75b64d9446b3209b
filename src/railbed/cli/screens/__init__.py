"""How records are shown. Read `base.py` first.

`base.py` writes JSON lines, `text.py` findings as tables, `bench.py`, `train.py` and `lab.py` are for those verbs;
`choose.py` selects one. `progress.py` draws the progress line, `progress.py` derives its content from records.
"""
