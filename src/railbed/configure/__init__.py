"""configure: turns the fixes of failing rules into changes of each device; shows, applies and undoes them.

Read `run.py` first.
"""
