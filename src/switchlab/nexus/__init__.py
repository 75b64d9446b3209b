"""An emulated Cisco Nexus: SSH and NX-API over a real configuration tree, with counters that tests drive.

It imports only the standard library, asyncssh and cryptography. Open `service.py` first.
"""
