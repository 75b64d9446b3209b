"""discover: machines in, a cluster file out. `sighting.py` picks what matters of each, `build.py` joins them."""
