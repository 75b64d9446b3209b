"""An emulated VMware ESXi host: SSH to a BusyBox-like shell with esxcli, over cards and VMs that tests describe.

Read `service.py` first.

It imports only the standard library and asyncssh.
"""
