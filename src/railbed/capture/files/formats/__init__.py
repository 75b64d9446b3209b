"""The formats of capture files. Read `records.py` first.

lanes      find where records begin, many at once
records    what a format yields: where packets are, and when they were recorded
pcap       the classic format
pcapng     the newer one: sections of blocks (blocks), with several interfaces (interfaces)
"""
