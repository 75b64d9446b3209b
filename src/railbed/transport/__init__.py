"""The only code that connects to devices: local, SSH, Slurm's `srun`, switches, and replay. Read `base.py` first.

`record` stores what any of them returns. `netlink` reads lists of this machine's kernel, also on nodes.
"""
