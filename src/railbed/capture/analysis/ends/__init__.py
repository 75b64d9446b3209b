"""Both ends of a connection, from the recordings of each. Read `join.py` first.

nearest   where a recording was made, if nobody says
pairing   which flow carries the answers to another
clocks    the clocks of recordings, aligned by the packets themselves
match     the same packets in two recordings
join      both ends of a flow: what was sent, what arrived, what was lost
"""
