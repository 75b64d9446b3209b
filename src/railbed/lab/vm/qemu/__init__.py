"""The processes of a vm lab: QEMU machines, how they are saved and resumed, and what connects them.

Read `machine.py` first.
"""
