"""railbed inside a Slurm job: `allocation.py` makes a cluster of the nodes that the job has.

Read `allocation.py` first.
"""
