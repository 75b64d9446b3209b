"""Pure data: what should be (cluster), what was seen (output, reading), what is said about it (records)."""
