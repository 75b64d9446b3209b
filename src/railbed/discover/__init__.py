"""discover: machines in, a cluster file out. `observation.py` picks what matters of each, `build.py` joins them."""
