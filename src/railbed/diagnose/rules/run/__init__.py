"""The run itself: what became of its records."""
