"""Output of show commands, as text and as data."""
