"""What the packets of recordings show, as typed results of pure functions; `analyse.py` joins them.

Read `analyse.py` first.

context  what the cluster file expects of addresses and marks
views    the packets of a recording, by flow
ends/        which flows belong together, their clocks, and the same packets at both ends
sequence     gaps, repeats and order of packet sequence numbers
answers      acknowledgements, refusals, round trips
messages     sizes and rates of messages
marks        DSCP, ECN and priority
checksums    which are wrong, and where they were not computed yet
reaction     notifications, and the sender's rate before and after
pauses       pause frames and how long they stopped a priority
incast       moments in which several senders load a receiver
"""
