"""What the terminal and the report share, and neither has alone: wording, groups, charts. Read `wording.py` first.

- `wording.py`: durations, sizes, shares, plurals and lists as text; the cluster file in commands.
- `groups.py`: findings by node, the worst first; nodes and ports with the same findings together.
- `changes.py`: devices and ports with the same changes. `changed.py`: what became worse during a training.
- `bench.py`: measurements of the same test in one group.
- `charts.py`: what is drawn together, in report, live page and dashboard.
"""
