"""check: judge the facts against the cluster file. Rules are one file each in `rules/`, and `book.py` has them by name;
`run.py` reads and judges.

Read `run.py` first.
"""
