"""The screen of verbs without their own."""

from __future__ import annotations

from railbed.cli.screens.base import JsonScreen, Screen
from railbed.model.cluster import Cluster


def make_screen(*, as_json: bool, verbose: bool, cluster: Cluster, configurable: bool = False) -> Screen:
    """Return the screen for the options; `configurable` if `configure` can fix the findings."""
    if as_json:
        return JsonScreen()
    # Imported here because rich takes as long to load as a small cluster takes to answer.
    from railbed.cli.screens.text import TextScreen

    return TextScreen(verbose=verbose, cluster=cluster, configurable=configurable)
