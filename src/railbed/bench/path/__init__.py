"""`check --prove path`: a marked RDMA stream between two nodes, followed from counter to counter. Read `run.py` first.

`run.py` sends the streams, `movement.py` reads how far each counter on the path moved, and `hops.py` judges hop by hop.
"""
