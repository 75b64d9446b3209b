"""The formats of capture files. Read `pcap.py` first.

lanes   find where records begin, many at once
pcap    what a format yields: where packets are, and when they were recorded; the classic format
pcapng  the newer one: sections of blocks (blocks), with several interfaces (interfaces)
"""
