"""Read capture files. Read `reader.py` first.

reader      all of it together
source      the bytes, decompressed while they are read; the part of a file that is in memory
formats     pcap and pcapng: where packets are, and when they were recorded
layers      what both engines decode alike
decode      the first engine: headers of many packets at once, with numpy;  transport  the headers of InfiniBand
compiled    the second engine: the same, compiled by numba
addresses   addresses as small numbers
columns     chooses an engine, and collects the result
details     every header of single packets
"""

from railbed.capture.files.details import packet_details, packets_details
from railbed.capture.files.reader import read_recording

__all__ = ["packet_details", "packets_details", "read_recording"]
