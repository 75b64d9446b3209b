"""Saved training states: files on disk, and where a resumed run continues. Read `checkpoints.py` first.

checkpoints   written, hashed, verified, pruned (no torch)
verify        lists the intact checkpoints of a node; runs there
resume        the step that a resumed run continues from
"""
