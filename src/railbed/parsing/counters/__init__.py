"""Counters of nodes under their vendors' names, and the lines in which the reader on a node sends them.

Read `names.py` first.
"""

from railbed.parsing.counters.layout import Counted, Layout
from railbed.parsing.counters.lines import (
    Answer,
    Fault,
    ForeignConnection,
    Greeting,
    LayoutLine,
    Line,
    Row,
    parse_line,
)
from railbed.parsing.counters.names import ETHTOOL, RDMA, Target

__all__ = [
    "ETHTOOL",
    "RDMA",
    "Answer",
    "Counted",
    "Fault",
    "ForeignConnection",
    "Greeting",
    "Layout",
    "LayoutLine",
    "Line",
    "Row",
    "Target",
    "parse_line",
]
