"""How changes survive a reboot: `unit.py` for what the kernel forgets, `network.py` for addresses and MTUs.

Read `persistence.py` first.
"""
