"""How esxcli prints what a command returns: as text, or as csv, keyvalue, xml or json. Read `records.py` first."""
