"""What `railbed train` answers without starting anything: --attach, --stop, --list, --show-env and --show-data."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from railbed.api.exits import OK
from railbed.api.site import built_in_local
from railbed.cli.background.attach import attach_run
from railbed.cli.background.stop import stop_run
from railbed.cli.console import SafeConsole
from railbed.cli.site import given_cluster
from railbed.cli.verbs.train.environment import show_env
from railbed.cli.verbs.train.start import prepared_data
from railbed.train import recipes


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The options that some of them share."""

    recipe: str
    settings: list[str]
    cluster: Path | None
    timeout: float
    as_json: bool

    def answer(self, *, attach: str | None, stop: str | None, listing: bool, environment: bool, shown: int) -> int:
        """Answer the first that was asked, and return the exit code."""
        if attach is not None:
            return attach_run(attach, as_json=self.as_json)
        if stop is not None:
            return stop_run(stop, as_json=self.as_json)
        if listing:
            return _list_recipes(as_json=self.as_json)
        if environment:
            site = given_cluster(self.cluster, None) or built_in_local()
            return show_env(site, timeout=self.timeout, as_json=self.as_json)
        return self._show_data(shown)

    def _show_data(self, count: int) -> int:
        from railbed.cli.verbs.train.data import show_data  # loads numpy

        wanted = recipes.load(self.recipe, self.settings)
        return show_data(prepared_data(wanted), wanted.model.context, count, as_json=self.as_json)


def _list_recipes(*, as_json: bool) -> int:
    if as_json:
        for name, description in recipes.descriptions().items():
            sys.stdout.write(json.dumps({"kind": "recipe", "name": name, "description": description}) + "\n")
        return OK
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, description in recipes.descriptions().items():
        table.add_row(f"[bold]{name}[/bold]", description)
    SafeConsole(highlight=False).print(table)
    return OK
