"""Emulated switches for tests of network automation: real SSH, a real configuration, and counters that tests drive.

Read `nexus/service.py` first.

`start` runs a switch as a process of its own; README.md beside this file shows how. It imports only the standard
library, asyncssh and cryptography. `nexus/` is the emulated Cisco Nexus.
"""

from switchlab.control import Control, ControlError
from switchlab.process import RunningSwitch, SwitchFailed, start

__all__ = ["Control", "ControlError", "RunningSwitch", "SwitchFailed", "start"]
