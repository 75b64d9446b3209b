"""railbed train"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from railbed import catalog
from railbed.api.site import built_in_local
from railbed.check import rules
from railbed.cli.background.detach import detach_process
from railbed.cli.background.runs import refuse_mixtures
from railbed.cli.options import ClusterOption, JsonOption, Options, TimeoutOption
from railbed.cli.site import given_cluster
from railbed.cli.slurm.ahead import Ahead
from railbed.cli.slurm.loading import load_between
from railbed.cli.verbs.train.options import (
    AttachOption,
    DetachOption,
    EnvironmentOption,
    FromStartOption,
    ListOption,
    MinimumOption,
    RanksOption,
    RecipeArgument,
    ResumeOption,
    SampleOption,
    SettingsOption,
    ShowDataOption,
    StopOption,
    TransportOption,
    UncheckedOption,
    WatchOption,
)
from railbed.model.cluster import Cluster
from railbed.model.limits import DEVICE_SECONDS
from railbed.model.probe import Probe
from railbed.probes import agents, disk, firewall, ip_route, limits, memory, torch

if TYPE_CHECKING:
    from railbed.api.train.earlier import EarlierRun

NEXT = (
    "railbed.check.judge",
    "railbed.cli.run.perform",
    "railbed.launch.supervise",
    "railbed.fleet.sample",
    "railbed.train.run",
    "railbed.cli.screens.train",
    "railbed.cli.verbs.train.start",
)
"""What `start` imports, in parts that each load quickly, and `start` itself."""
LAST = "railbed.store.series"
"""What the first sample needs: it loads numpy, and comes while ranks are started."""
PROBES: tuple[Probe[Any], ...] = (
    agents.PROBE,
    disk.PROBE,
    firewall.PROBE,
    ip_route.PROBE,
    limits.PROBE,
    memory.PROBE,
    torch.PROBE,
)
"""What a training reads from nodes, apart from what discovery reads."""


def train_command(
    context: typer.Context,
    recipe: RecipeArgument = "tiny",
    settings: SettingsOption = None,
    cluster: ClusterOption = None,
    ranks: RanksOption = None,
    minimum: MinimumOption = 1,
    transport: TransportOption = "auto",
    resume: ResumeOption = None,
    from_start: FromStartOption = False,
    detach: DetachOption = False,
    attach: AttachOption = None,
    stop: StopOption = None,
    environment: EnvironmentOption = False,
    shown: ShowDataOption = 0,
    listing: ListOption = False,
    unchecked: UncheckedOption = False,
    sample_seconds: SampleOption = 1.0,
    watched: WatchOption = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
) -> int:
    """Train on the cluster, survive failures, and print a summary.

    Example: railbed train tiny --set steps=200
    """
    refuse_mixtures(context)
    if attach is not None or stop is not None or listing or environment or shown:
        from railbed.cli.verbs.train.queries import Queries  # loads what no training needs

        queries = Queries(recipe=recipe, settings=settings or [], cluster=cluster, timeout=timeout, as_json=as_json)
        return queries.answer(attach=attach, stop=stop, listing=listing, environment=environment, shown=shown)
    unseen = detach_process(as_json=as_json) if detach else None
    ahead = Ahead(load=_load, probes=PROBES)
    earlier, site = _place(resume, cluster, ahead, from_start=from_start)
    from railbed.cli.verbs.train.start import Start  # takes long to load, so `_load` may have done it meanwhile

    start = Start(
        recipe=recipe,
        settings=settings or [],
        earlier=earlier,
        from_start=from_start,
        ranks=ranks,
        minimum=minimum,
        transport=transport,
        unchecked=unchecked,
        sample_seconds=sample_seconds,
        watched=watched,
    )
    start = start.with_options_of(earlier, context) if earlier else start
    return start.run(site, Options(json=as_json, timeout=timeout, recent=ahead.outputs), unseen)


def _place(
    resume: str | None, cluster: Path | None, ahead: Ahead, *, from_start: bool
) -> tuple[EarlierRun | None, Cluster]:
    """Return the run to continue, if any, and where to train."""
    if resume is None:
        return None, given_cluster(cluster, None, ahead=ahead) or built_in_local()
    from railbed.cli.verbs.train.resume import run_to_resume, site_of  # loads what is not needed to read the nodes

    earlier = run_to_resume(resume, from_start=from_start)
    return earlier, site_of(earlier, cluster, ahead)


async def _load() -> None:
    """Load what a training needs next, while the nodes of a Slurm job are read."""
    await load_between([*NEXT, *catalog.modules(rules), LAST])
