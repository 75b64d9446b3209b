"""report: a run's folder as a report of sections, written as HTML, Markdown, JSON or CSV. Read `document.py` first.

Sections are one file each in `sections/`; `document.py` puts them together, and every format is written from that.
`compare/` makes such a report of two runs, `handover/` of a cluster.
"""

from __future__ import annotations

from railbed.report.document import Report, describe
from railbed.report.reading.run import read

__all__ = ["Report", "describe", "read"]
