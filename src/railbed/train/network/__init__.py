"""What carried the gradients, according to the counters of cards and interfaces. Read `verdict.py` first.

tcp          bytes between two readings of counters
connections  the TCP connections of a node, from its kernel
ledger       the totals of a run, over all generations
verdict      bounds of the share that crossed RDMA, and the proof as a finding
"""
