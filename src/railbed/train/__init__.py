"""Distributed training. Only `worker/`, which runs on the nodes, needs torch. Read `run.py` first.

run         the verb: starts ranks on the nodes and supervises them
export      the verb that fetches the trained weights
spec        what a rank receives, and the messages it sends
ranks       the ranks of a generation, and the state they continue from
recipe      what to train, as a validated file; `recipes/` has those that come with railbed
data        text to tokens, and which of them a step trains on
shares      how the global batch is split among ranks of unequal speed
capacity    whether the model fits the nodes
state       checkpoints, and where a resumed run continues
progress    the messages of the ranks as records
network     what carried the gradients, with proof
worker      the torch side: one rank
"""
