"""How ranks train one model together.

gradients     sums gradients over all ranks, bucket by bucket
compression   the number format that gradients travel in
"""
