"""The commands of the switch, one module per area. Read `general.py` first."""
