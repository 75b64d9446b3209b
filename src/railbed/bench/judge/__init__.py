"""What numbers are judged by, as pure functions: the hardware, the other links of the cluster, and a saved baseline.

Read `limits.py` first.

limits    what the slowest part of a path allows
outliers  which measurements lag behind comparable ones, and what they have in common
baseline  the numbers of an earlier run, saved beside the cluster file
paths     how paths were measured, and which can be compared
"""
