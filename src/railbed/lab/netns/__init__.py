"""Nodes as namespaces of this machine's kernel: real SSH and real TCP, up in a second; no RDMA. Read `kind.py` first.

Each node has its own network, hostname, processes and mounts, and an sshd. One more namespace is the switch: a bridge
per rail and one for management, to which a single interface of this machine, `railbed-ID`, is cabled.
"""
