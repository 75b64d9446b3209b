"""SSH: `login.py` finds out how to log in, `errors.py` words what went wrong. Read `connection.py` first.

`switch.py` is the command line of a switch over the same connections.
"""
