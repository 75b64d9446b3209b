"""BMCs: Redfish over HTTPS, and IPMI through ipmitool. Both only read, unless a person asked for a power action.

Read `actions.py` first.
"""
