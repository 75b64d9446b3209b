"""The filter rules of a machine: iptables and nftables listings as one model, and what they do with a packet.

Read `rules.py` first.
"""
