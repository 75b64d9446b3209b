"""The cluster file as text: reading it with all its mistakes reported, writing it, and editing it as a person would.

Read `read.py` first.

read       from a file to a Cluster, or to one ClusterFileError with a line for every mistake
write      a Cluster as the file that a person would have typed; what changed between two clusters
rewrite    an existing file's text with only the changes made in it
"""

from __future__ import annotations

from railbed.clusterfile.read import load, load_site, loads
from railbed.clusterfile.rewrite import rewrite
from railbed.clusterfile.write import difference, dumps

__all__ = ["difference", "dumps", "load", "load_site", "loads", "rewrite"]
