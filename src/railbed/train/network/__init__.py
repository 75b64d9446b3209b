"""What carried the gradients, according to the counters of cards and interfaces. Read `verdict.py` first.

tcp     bytes between two readings of counters                 proof       bounds of the share that crossed RDMA
ledger  the totals of a run, over all generations             verdict     the proof as a finding
"""
