"""The reader, which runs on nodes: it is sent to them as text, so it uses only the standard library and few modules.

Read `reader.py` first.

`railbed.transport.netlink` is sent with it.
"""
