"""One file per rule: what it recognises, why it matters to training, what to do, and the function that judges.

Read `delivery_lost.py` first.
"""
