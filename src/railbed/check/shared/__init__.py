"""What several rules share: capabilities of cards, meanings of counters, comparing nodes, wording.

Read `port.py` first.
"""
