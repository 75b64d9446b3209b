"""Sections about packets that were recorded. Read `verdicts.py` first."""
