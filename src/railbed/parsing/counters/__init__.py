"""Counters of nodes under their vendors' names, and the lines in which the reader on a node sends them.

Read `names.py` first.
"""

from railbed.parsing.counters.lines import (
    Answer,
    Counted,
    ForeignConnection,
    Greeting,
    LayoutLine,
    Line,
    LineFault,
    ReaderLayout,
    Row,
    parse_line,
)
from railbed.parsing.counters.names import ETHTOOL, RDMA, CounterTarget

__all__ = [
    "ETHTOOL",
    "RDMA",
    "Answer",
    "Counted",
    "CounterTarget",
    "ForeignConnection",
    "Greeting",
    "LayoutLine",
    "Line",
    "LineFault",
    "ReaderLayout",
    "Row",
    "parse_line",
]
