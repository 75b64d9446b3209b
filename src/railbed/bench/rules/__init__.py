"""One file per verdict about measurements. Read `bench_latency.py` first."""
