"""capture: RoCEv2 packets from the nodes on one clock, decoded and judged. Read `run.py` first.

packets    what is known of the packets of a recording: a column per field
files      read capture files: pcap, pcapng, compressed or not
opcodes    every opcode by name, with the headers that follow
analysis/  flows, marks, losses, notifications, pauses, clocks: what the packets show
book       its rules; subjects: what they judge; proof: packets as evidence
rules/     one file per rule
"""
