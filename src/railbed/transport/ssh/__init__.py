"""SSH: `connection.py` first; `login.py` finds out how to log in, `errors.py` words what went wrong.

`command_line.py` is the command line of a switch over the same connections.
"""
