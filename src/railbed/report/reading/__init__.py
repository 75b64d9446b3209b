"""A run's folder as data. Read `run.py` first.

`series.py` has measurements over steps, `history.py` generations and restarts, and `metrics.py` the numbers of a
training run for programs.
"""
