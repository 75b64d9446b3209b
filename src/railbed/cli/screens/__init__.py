"""How records are shown: open `base.py` first, then the screen of a verb.

`json.py` writes JSON lines, `text.py` findings as tables, `bench.py`, `train.py` and `lab.py` are for those verbs;
`choose.py` selects one. `progress.py` draws the progress line, `activity.py` derives its content from records.
"""
