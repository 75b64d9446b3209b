"""diagnose: what happened during a run, from its time series, events and findings. Read `judge.py` first.

rule       the form of a rule
evidence   what a rule reads: the run as nodes, ports, rails, switches
signal     one series, and the episodes in which it was unusual
chart      a series as block characters
judge      every rule over a run, and which verdict explains which
rules/     one file per rule
"""
