"""Probes of BMCs, over IPMI or Redfish, whichever the cluster file names: the facts are the same.

Read `power.py` first.
"""
