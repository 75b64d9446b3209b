"""The only servers of railbed, read-only: the live page of a run, and the numbers for Prometheus.

Read `serve.py` first.

`access.py` decides who may read, `serve.py` runs an application beside other work, `page/` is the live page.
"""
