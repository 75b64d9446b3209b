"""What the packets of recordings show, as typed results of pure functions; `analyse.py` joins them.

Read `analyse.py` first.

results      the types of the results
context      what the cluster file expects of addresses and marks
views        the packets of a recording, by flow
pairing      which flows belong together, and where they were recorded
clocks       the clocks of recordings, from packets that two of them contain
journeys     the same packets at both ends: lost, and marked on the way
sequence     gaps, repeats and order of packet sequence numbers
answers      acknowledgements, refusals, round trips
traffic      marks, messages, rates
checksums    which are wrong, and where they were not computed yet
congestion   moments in which several senders load a receiver; notifications, and the sender's rate before and after
pauses       pause frames and how long they stopped a priority
"""
