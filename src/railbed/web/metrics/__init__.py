"""Metrics for Prometheus: the newest sample of every device, as text. Read `run.py` first."""
