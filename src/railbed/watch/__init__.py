"""watch: sampling a cluster as a run of its own."""
