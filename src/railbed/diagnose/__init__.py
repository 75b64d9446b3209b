"""diagnose: what happened during a run, from its time series, events and findings.

book       its rules, and which verdict explains which
evidence   what a rule reads: the run as nodes, ports, rails, switches
rules/     one file per rule
"""
