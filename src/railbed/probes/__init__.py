"""One file per source: a command and a pure parser (`PROBE`). `outputs.py` turns raw output into readings.

Read `ip_link.py` first.
"""
