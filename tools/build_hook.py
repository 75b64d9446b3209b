"""Puts uPlot into the wheel, and into the source tree of an editable installation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class UplotHook(BuildHookInterface[Any]):
    """Runs before hatch collects the files of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  (hatch's interface)
        """Obtain uPlot; without it railbed is complete but for the live page, which says what is missing."""
        sys.path.insert(0, self.root)
        from tools.uplot import NotObtained, obtain

        try:
            obtain(Path(self.root))
        except NotObtained as error:
            self.app.display_warning(f"the live page will lack its charts: {error}")
