"""Files for Prometheus, Grafana and systemd, generated from the cluster file. Read `files.py` first."""
