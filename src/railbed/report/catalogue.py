"""All sections."""

from __future__ import annotations

from functools import cache

from railbed import catalog
from railbed.report import sections
from railbed.report.section import Section


@cache
def all_sections() -> tuple[Section, ...]:
    """Return every section, in the order of the page."""
    plugins = catalog.collect(sections, Section, "SECTION").values()
    return tuple(sorted(plugins, key=lambda section: (section.order, section.name)))
