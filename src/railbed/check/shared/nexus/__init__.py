"""What rules about a Nexus share: `qos.py` has the QoS in force, `lines.py` the configuration lines of their fixes.

Read `qos.py` first.
"""
