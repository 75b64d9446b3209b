"""What the training itself measured: slow ranks, stalls, restarts, and what carried the gradients.

Read `slow_rank.py` first.
"""
