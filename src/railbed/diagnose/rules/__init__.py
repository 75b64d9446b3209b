"""One file per rule: what it recognises, why it matters to training, what to do, and the function that judges.

Read `loss_receiver_not_ready.py` first.
"""
