"""capture: RoCEv2 packets from the nodes on one clock, decoded and judged. Read `run.py` first.

run        the verb: record and analyse;  read  the same from files
methods    how a port can be recorded;  recording  what is asked for;  record, remote  record on all nodes
node       the recorder, which runs there
packets    what is known of the packets of a recording: a column per field;  opcodes  every opcode by name
files      read capture files: pcap, pcapng, compressed or not
analysis   flows, marks, losses, notifications, pauses, clocks: what the packets show
records    the results as records;  ladders  single messages, packet by packet
book       the rules; `rules/` has one file per rule;  subjects  what they judge
marked     marks that rules count;  proof  packets as evidence
export     all recordings as one file for Wireshark
"""
