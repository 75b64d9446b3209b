"""Read capture files. Read `reader.py` first.

source   the bytes, decompressed while they are read; the part of a file that is in memory
formats  pcap and pcapng: where packets are, and when they were recorded
frames, decode, transport, icrc   headers, of many packets at once
columns    collect the result
compiled   the same decoding, compiled by numba
engines    choose between both
reader     all of it together
details    every header of single packets
"""

from railbed.capture.files.details import packet_details, packets_details
from railbed.capture.files.reader import read_recording

__all__ = ["packet_details", "packets_details", "read_recording"]
