"""Output of show commands, as text and as data. Read `interfaces.py` first."""
