"""railbed watch: a run on one time axis, in the terminal, on a page, or as records. Read `command.py` first.

`command.py` decides what is watched; `view.py` samples into a run, shows and serves it; `exporter.py` serves metrics
for Prometheus.
"""
