"""The hand-over page: a cluster for whoever takes it over, from its file, its newest facts and its runs.

Read `data.py` first. `inventory.py` turns facts into records, `notes.py` reads what people wrote, and the files in
`sections/` each show one part of the page.
"""

from __future__ import annotations

from railbed.report.handover.data import HandoverData, describe_cluster

__all__ = ["HandoverData", "describe_cluster"]
