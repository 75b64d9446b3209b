"""railbed train: the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from railbed.api.site import built_in_local
from railbed.cli.background.detach import detach_process
from railbed.cli.background.runs import refuse_mixtures
from railbed.cli.options import ClusterOption, JsonOption, Options, TimeoutOption
from railbed.cli.site import given_cluster
from railbed.model.cluster import Cluster
from railbed.model.limits import DEVICE_SECONDS

if TYPE_CHECKING:
    from railbed.api.train.earlier import EarlierRun

RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe by name, or a file.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe; repeatable.")
]
RanksOption = Annotated[
    int | None, typer.Option("--ranks", metavar="N", min=1, help="Ranks per node. [default: one per GPU, or one]")
]
MinimumOption = Annotated[
    int, typer.Option("--min-nodes", metavar="N", min=1, help="Continue as long as this many nodes are left.")
]
TransportOption = Annotated[
    Literal["auto", "nccl", "mpi", "gloo"], typer.Option("--transport", help="What carries the gradients.")
]
ResumeOption = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Continue a run (name, folder or newest) from its last intact checkpoint, on its cluster.",
    ),
]
FromStartOption = Annotated[
    bool, typer.Option("--from-start", help="With --resume: restart the run at step 1 and ignore its checkpoints.")
]
EnvironmentOption = Annotated[
    bool, typer.Option("--show-env", help="Print the network settings of each node's ranks, with reasons, and exit.")
]
ShowDataOption = Annotated[
    int,
    typer.Option(
        "--show-data",
        metavar="N",
        min=0,
        max=1000,
        help="Print the first N sequences as the model will get them, with the trained tokens marked, and exit.",
    ),
]
ListOption = Annotated[bool, typer.Option("--list", help="List the recipes and exit.")]
UncheckedOption = Annotated[bool, typer.Option("--no-check", help="Do not check the cluster first.")]
SampleOption = Annotated[
    float,
    typer.Option(
        "--sample",
        metavar="SECONDS",
        min=0.0,
        max=60.0,
        help="How often the counters of all devices are sampled: 0.1 to 60 s, or 0 to sample nothing.",
    ),
]
WatchOption = Annotated[
    bool, typer.Option("--watch", help="Serve the live page of the run on this machine, and print its address.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Continue in the background; returns once the cluster has passed its check.")
]
AttachOption = Annotated[
    str | None,
    typer.Option("--attach", metavar="RUN", help="Show a run: a name, a folder, or newest."),
]
StopOption = Annotated[
    str | None,
    typer.Option("--stop", metavar="RUN", help="Stop a run (name, folder or newest), as Ctrl-C in its terminal would."),
]


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
    earlier, site = _place(resume, cluster, from_start=from_start)
    from railbed.cli.verbs.train.start import Start  # loads what only a start needs

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
    return start.run(site, Options(json=as_json, timeout=timeout), unseen)


def _place(resume: str | None, cluster: Path | None, *, from_start: bool) -> tuple[EarlierRun | None, Cluster]:
    """Return the run to continue, if any, and where to train."""
    if resume is None:
        return None, given_cluster(cluster, None) or built_in_local()
    from railbed.cli.verbs.train.start import run_to_resume, site_of  # loads what only a run that continues needs

    earlier = run_to_resume(resume, from_start=from_start)
    return earlier, site_of(earlier, cluster)
