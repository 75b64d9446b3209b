"""Training runs without a terminal: `detach.py` starts one, `attach.py` shows it, `stop.py` ends it.

Read `detach.py` first.

`runs.py` finds a run by name, and has what its records show and the commands that go with it.
"""
