"""watch: sampling a cluster, as a run of its own or beside another verb. Read `run.py` first."""
