"""An emulated Cisco Nexus: SSH and NX-API over a real configuration tree, with counters that tests drive.

Read `service.py` first.

It imports only the standard library, asyncssh and cryptography.
"""
