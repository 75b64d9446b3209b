"""discover: machines in, a cluster file out. `observation.py` reduces each machine's facts, `build.py` joins them.

Read `run.py` first.
"""
