"""Nodes as virtual machines with Soft-RoCE: real RoCEv2, with the kernel and the tools of Debian."""
