"""Python environments without a package index: a folder of wheels is sent to the nodes, and installed from there."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from railbed.check.rules import mpi_rdma, torch_equal, tuning_libraries
from railbed.check.shared.environment import (
    MPI,
    REQUIREMENTS,
    add_libraries,
    add_mpi,
    environment_prefix,
    from_wheels,
    package_of,
)
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.launch.files.guard import BASE
from railbed.launch.files.ship import Parcel, parcel, ship
from railbed.model.cluster import Cluster
from railbed.model.record import Finding

INSTALLING = frozenset({mpi_rdma.RULE.name, torch_equal.RULE.name, tuning_libraries.RULE.name})
"""Rules whose fixes install Python packages."""


@dataclass(frozen=True)
class Wheels:
    """A folder of wheels."""

    parcel: Parcel
    requirements: tuple[str, ...]
    """What to install of it: what training needs, and railbed if its wheel is there."""
    mpi: tuple[str, ...] = ()
    """What nodes with RDMA and without GPUs need as well, if its wheels are there."""

    @classmethod
    def from_folder(cls, folder: Path) -> Wheels:
        """Read a folder; raises UsageError if it has no wheels."""
        files = {path.name: path for path in sorted(folder.glob("*.whl"))}
        if not files:
            raise UsageError(f"{folder} has no wheels", hint="`pip wheel -w DIR torch` fills a folder")
        own = ("railbed",) if any(name.startswith("railbed-") for name in files) else ()
        packages = {name.partition("-")[0] for name in files}
        mpi = MPI if packages.issuperset(map(package_of, MPI)) else ()
        return cls(parcel("wheels", files), (*REQUIREMENTS, *own), mpi)

    def install_from(self, cluster: Cluster, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings, with fixes that install from the wheels where they would have used a package index."""
        for finding in findings:
            prefix = self._prefix(cluster, finding)
            if prefix is None or finding.fix is None:
                yield finding
                continue
            node, folder = finding.fix.device, f"{posixpath.dirname(prefix)}/{BASE}/{self.parcel.name}"
            match finding.check:
                case torch_equal.RULE.name:
                    fix = from_wheels(finding.fix, prefix, folder, self.requirements, mpi=self.mpi)
                case mpi_rdma.RULE.name:
                    fix = add_mpi(node, prefix, wheels=folder, after=finding.fix.after)
                case _:
                    fix = add_libraries(node, prefix, wheels=folder, after=finding.fix.after)
            yield replace(finding, fix=fix, remedy=fix.remedy)

    @staticmethod
    def _prefix(cluster: Cluster, finding: Finding) -> str | None:
        if finding.check not in INSTALLING or finding.fix is None:
            return None
        return environment_prefix(cluster.python_of(finding.fix.device))

    async def send(self, fleet: Fleet, cluster: Cluster, names: Collection[str], run: str) -> dict[str, str]:
        """Send the wheels to nodes, beside the environments that they will get; return why some did not get them."""
        refused: dict[str, str] = {}
        folders: dict[str, list[str]] = {}
        for name in names:
            folders.setdefault(posixpath.dirname(environment_prefix(cluster.python_of(name)) or "/"), []).append(name)
        for folder, nodes in folders.items():
            # Their own Python does not exist yet.
            interpreters = dict.fromkeys(nodes, ("python3",))
            shipped = await ship(fleet, interpreters, folder, [self.parcel], folder=f"runs/{run}")
            refused |= {name: error.message for name, error in shipped.failed.items()}
        return refused
