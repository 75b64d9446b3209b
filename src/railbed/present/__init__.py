"""Wording, grouping and numbers that the terminal and the report share; it knows neither of them.

- `findings.py`: findings by node, the worst first, and their verdicts counted.
- `nodes.py`: nodes with the same findings share one block.
- `bench.py`: measurements of the same test in one group.
- `wording.py`: durations, sizes, shares, plurals and lists in words.
"""
