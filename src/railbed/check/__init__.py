"""check: judge the facts against the cluster file. Rules are one file each in `rules/`; `run.py` reads and judges.

Read `run.py` first.
"""
