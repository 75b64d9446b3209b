"""Emulated switches and hypervisor hosts for tests of automation: real SSH, real state, counters that tests drive.

Read `nexus/service.py` first.

`start` runs a device as a process of its own; README.md beside this file shows how. It imports only the standard
library, asyncssh and cryptography. `nexus/` is the emulated Cisco Nexus, `esxi/` the emulated VMware ESXi host, and
`common/` what they share.
"""

from switchlab.control import Control, ControlError
from switchlab.process import RunningSwitch, SwitchFailed, start

__all__ = ["Control", "ControlError", "RunningSwitch", "SwitchFailed", "start"]
