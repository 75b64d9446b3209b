"""The code of a rank, which runs on a node. torch is imported only here, in `collective` and in bench's workers.

Read `loop.py` first.
"""
