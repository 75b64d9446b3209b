"""diagnose: what happened during a run, from its time series, events and findings. Read `book.py` first.

book     its rules, and which verdict explains which
rules/   one file per rule
"""
