"""Wording, grouping and numbers that the terminal and the report share; independent of both. Read `wording.py` first.

- `groups.py`: findings by node, the worst first, and their verdicts counted.
- `groups.py`: nodes with the same findings share one block; `groups.py`: ports with the same finding share one entry.
- `changes.py`: devices and ports with the same changes.
- `groups.py`, `groups.py`, `wording.py`: what these have in common: keys, names to ignore in them, lists of names.
- `bench.py`: measurements of the same test in one group.
- `wording.py`: the cluster file in commands that texts contain.
- `wording.py`: durations, sizes, shares, plurals and lists as text.
"""
