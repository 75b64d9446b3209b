"""Write recordings as one pcapng file for Wireshark: on one clock, with names, and comments on the packets that matter.

Read `write.py` first.

blocks  the blocks of the format that are not packets; what to write about which packets
merge   the packets of all recordings in one order, a bounded part in memory at a time
write   many packets as bytes at once; all of it together
"""

from railbed.capture.export.write import Exported, export_recordings

__all__ = ["Exported", "export_recordings"]
