"""Compare two arms of an experiment, and report the difference with its confidence interval. Read `run.py` first.

experiment  the experiment file
run         measure the arms in turns, or one arm per visit
arms        the numbers of each arm, and their difference
visits      saves the first of two visits for the second
"""
