"""How ranks train one model together. Read `strategy.py` first.

strategy   the interface: wrapping, communication, clipping, content of checkpoints
replicate  every rank has the whole model, and gradients are summed during the backward pass; the same, with the sum
           after it
choose     selects the strategy of a recipe
gradients  sums gradients over all ranks, bucket by bucket; the number format that gradients are sent in
"""
