"""Samples the counters of all devices of a cluster, over the connections that the fleet has anyway.

Read `sampling.py` first.
"""

from railbed.fleet.sample.sampling import LONGEST_SECONDS, SHORTEST_SECONDS, sample

__all__ = ["LONGEST_SECONDS", "SHORTEST_SECONDS", "sample"]
