"""The torch side of the collective benchmark: one rank."""
