"""One file per section, each with a `SECTION`; found by folder. Read `loss.py` first."""
