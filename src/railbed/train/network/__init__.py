"""What really carried the gradients, from the cards' own counters.

moved       bytes between two readings of counters                 proof       which share crossed RDMA, between bounds
ledger      the books of a run, over all generations               verdict     the proof in words
"""
