"""report: a run's folder -> one HTML file. Sections are one file each in `sections/`; `page.py` puts them together."""

from __future__ import annotations

from railbed.report.data import read
from railbed.report.page import Page, build

__all__ = ["Page", "build", "read"]
