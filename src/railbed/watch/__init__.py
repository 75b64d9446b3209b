"""watch: sampling a cluster as a run of its own (`run.py`), or beside another verb (`alongside.py`, `series.py`).

Read `run.py` first.
"""
