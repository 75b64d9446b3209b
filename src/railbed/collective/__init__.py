"""The torch side of a collective: one face, and the engines behind it.

face        what a rank can do together with the others
meet        how ranks find each other: explicit address, interface and time-out, no guessed host name
group       gloo and nccl, through torch.distributed
alone       one rank
"""
