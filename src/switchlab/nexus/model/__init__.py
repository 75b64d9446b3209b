"""The switch as data: platform, configuration, counters, forwarding. Read `switch.py` first."""
