"""Output of VMware ESXi hosts: `layout.py` has the forms that esxcli prints, the others a kind of value each.

Read `layout.py` first.

Releases differ in what they print; what one does not report is `None`.
"""
