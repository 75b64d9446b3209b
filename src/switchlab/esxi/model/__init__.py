"""The host: its release, cards, virtual functions, switches, VMs and module parameters. Read `host.py` first."""
