"""Kills verbs of `railbed` at random moments, for `tests/test_kills.py`: start with `scenario.py`."""
