"""The measuring tools, one file each. Read `iperf3.py` first."""
