"""Generic resources as Slurm prints them: `gpu:a100:2(IDX:0-1),nic:1(CNT:1)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

ITEM = re.compile(
    r"(?<![\w.+-])(?P<name>[A-Za-z_][\w.-]*+)(?::(?P<kind>[A-Za-z_][\w.+-]*+))?"
    r":(?P<count>\d{1,9}+[KMGTP]?+)(?:\((?P<detail>[^()]*+)\))?",
    re.ASCII,
)
RANGE = re.compile(r"(?P<first>\d{1,4}+)(?:-(?P<last>\d{1,4}+))?", re.ASCII)
INDICES = "IDX:"
NO_GRES = "--gres=none"
"""Of a step where Slurm manages GPUs and the job has none."""
GPU = "gpu"
PARTS_OF_A_GPU = ("mps", "shard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gres:
    """Resources of one name and type."""

    name: str
    kind: str
    count: str
    """As Slurm prints it: with a suffix such as K, if it is large."""
    indices: tuple[int, ...] = ()
    """Which of the node's resources of this name they are, if Slurm counts them."""

    def __str__(self) -> str:
        return f"{self.name}:{self.count}"


def parse_gres(text: str) -> list[Gres]:
    """Read a list of resources; what is not one, such as `(null)`, is left out."""
    return [
        Gres(name=item["name"], kind=item["kind"] or "", count=item["count"], indices=_indices(item["detail"] or ""))
        for item in ITEM.finditer(text)
        if item["count"].strip("0")
    ]


def step_options(resources: Sequence[Gres]) -> tuple[str, ...]:
    """Return the options with which a step on one node gets all GPUs of these resources, and the rest of them.

    Only `--gpus` without a type works for every way to request GPUs, and if nodes have different numbers of them: Slurm
    22.05 refuses `--gres=gpu:2` in a job with `--gpus=3`, and a type that the job did not name.
    """
    if not resources:
        return (NO_GRES,)
    gpus = sum(int(gres.count) for gres in resources if gres.name == GPU and gres.count.isdigit())
    others = ",".join(str(gres) for gres in resources if gres.name != GPU)
    return (f"--gpus={gpus}", *((f"--gres={others}",) if others else ())) if gpus else ()


def gpus_of(resources: Iterable[Gres]) -> tuple[int, ...]:
    """Return the numbers of the GPUs among resources; a job with parts of GPUs has one, whose number Slurm hides."""
    resources = list(resources)
    indices = sorted({index for gres in resources if gres.name == GPU for index in gres.indices})
    if not indices and any(gres.name in PARTS_OF_A_GPU for gres in resources):
        return (0,)
    return tuple(indices)


def _indices(detail: str) -> tuple[int, ...]:
    if not detail.startswith(INDICES):
        return ()
    return tuple(index for part in detail.removeprefix(INDICES).split(",") for index in _range(part))


def _range(text: str) -> Iterator[int]:
    if match := RANGE.fullmatch(text):
        yield from range(int(match["first"]), int(match["last"] or match["first"]) + 1)
