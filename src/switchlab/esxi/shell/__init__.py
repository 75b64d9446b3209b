"""A shell like BusyBox ash, as far as clients of such hosts use it. Read `shell.py` first."""
