"""watch: sampling a cluster as a run of its own (`run.py`), or beside another verb (`run.py`, `run.py`).

Read `run.py` first.
"""
