"""A cluster on one machine, with real SSH: network namespaces (`netns`), or virtual machines with RoCEv2 (`vm`).

model       what a lab is: its nodes, rails, addresses, and the faults in force
folder      where a lab's files lie, and who may touch them at a time
kind        what a kind of lab must be able to do; `netns/` and `vm/` are the two
up, down    bring a lab up, and leave nothing of it behind
fault       faults and their undo
status      what there is, and how it is
host        root, programs and running commands on this machine
keys        SSH keys made for a lab
"""
