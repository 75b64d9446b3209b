"""The formats of capture files. Read `pcap.py` first.

pcap    what a format yields: where packets are, and when they were recorded; the classic format
pcapng  the newer one: sections of blocks, which `blocks.py` reads
lanes   find where records begin, many at once
"""
