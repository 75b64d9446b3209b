"""An emulated Cisco Nexus: SSH and NX-API over a real configuration tree, with counters that tests drive.

It knows nothing about the rest of railbed, and imports only the standard library and asyncssh.
"""
