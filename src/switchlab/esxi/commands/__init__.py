"""The commands of the shell that know the host. Read `esxcli.py` first."""
