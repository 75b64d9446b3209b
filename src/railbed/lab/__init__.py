"""A cluster on one machine, with real SSH: network namespaces (`netns`), or virtual machines with RoCEv2 (`vm`).

Read `up.py` first.

model   a lab as data: its nodes, rails, addresses, and the declared faults
folder  the files of labs, and their locks
kind    the interface of a kind of lab; `netns/` and `vm/` implement it
up, down    create a lab, and remove it completely
fault       declares faults and heals them
scheduler   waits for the scheduler of a lab
status      lists labs, their nodes and faults
host        root, programs and running commands on this machine
keys        SSH keys of a lab
patience    waits as long as there is progress
steps       long steps, with their usual duration
removal     removes files, but never what is mounted below them
units       rates, delays and percentages
"""
