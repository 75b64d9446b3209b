"""Probes of Cisco Nexus switches, one per show command: JSON if the switch prints it, else text.

Read `interface.py` first.
"""
