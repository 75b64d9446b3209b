"""Training runs without a terminal: `detach.py` starts one, `attach.py` shows it, `stop.py` ends it.

Read `detach.py` first.

`runs.py` finds a run by name and has the commands that go with it; `runs.py` shows its records, and how it ended.
"""
