"""A cluster on one machine, with real SSH: network namespaces (`netns`), or virtual machines with RoCEv2 (`vm`).

Read `up.py` first.

up      creates a lab, and removes it completely
model   a lab as data: its nodes, rails, addresses, and the declared faults
folder  the files of labs, and their locks; removing them
kind    the interface of a kind of lab; `netns/` and `vm/` implement it
fault   declares faults and heals them; lists labs, their nodes and faults
switch  the emulated switch of a lab
host    this machine: root, programs, memory, processes, SSH keys
steps   long steps, with their usual duration, as long as there is progress
"""
