"""How the gradients travel: what the fabric allows, what the ranks are told of it, and what really carried them.

paths       which ports RDMA can use, and why not the others       fabric      the environment of NCCL, UCX and Gloo
moved       bytes between two readings of counters                 proof       which share crossed RDMA, between bounds
ledger      the books of a run, over all generations               verdict     the proof in words
"""
