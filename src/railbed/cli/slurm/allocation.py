"""The cluster `slurm`: the nodes that the Slurm job around us has now, discovered each time it is used."""

from __future__ import annotations

import os
import sys
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from railbed import clusterfile
from railbed.cli.run.signals import run_until_ended
from railbed.discover.run import discover
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster, Gpu, Login, Node, Training
from railbed.model.events import ClusterBuilt
from railbed.model.text import exists, expand_home
from railbed.model.writers import distrust
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from railbed.transport.slurm import SlurmJob, lost_nodes, read_job

DEFAULT_SITE = "railbed/slurm.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a job has, as a cluster."""

    job: SlurmJob
    site: Cluster
    """What the site file sets; without one, nothing but names and addresses of the nodes."""
    machines: Cluster
    """The nodes of the job, before they are read."""

    @classmethod
    def of(cls, site: Cluster, job: SlurmJob) -> Allocation:
        """Return what a job has, with what the site file sets for its nodes."""
        return cls(job=job, site=site, machines=_machines(site, job))

    def narrow(self, discovered: Cluster) -> Cluster:
        """Return the machines, once read, with what the job may use: the site's rails, and the GPUs that it has."""
        nodes = {name: self._usable(name, node) for name, node in discovered.nodes.items()}
        return discovered.model_copy(update={"rails": self.site.rails or discovered.rails, "nodes": nodes})

    def _usable(self, name: str, node: Node) -> Node:
        rails = self.site.rails
        ports = tuple(port for port in node.ports if not rails or port.rail in rails)
        assigned = self.job.gpus.get(name)
        gpus = node.gpus if assigned is None else _select_gpus(node.gpus, assigned)
        return node.model_copy(update={"ports": ports, "gpus": gpus})


def read_allocation(site: str) -> Allocation:
    """Return what the job around us has; `site` is the site file, if one is named."""
    return run_until_ended(_read(_site_file(site)))


def allocation_cluster(site: str) -> Cluster:
    """Return the nodes of the job around us as a cluster; `site` is the site file, if one is named."""
    return run_until_ended(_cluster(_site_file(site)))


async def _cluster(file: Path | None) -> Cluster:
    return await _discover_ports(await _read(file))


async def _read(file: Path | None) -> Allocation:
    job = await read_job(_job_around_us())
    await _report_lost_nodes(job)
    nodes = {name: Node(host=address) for name, address in job.nodes.items()}
    name = f"slurm-{job.id}"
    site = clusterfile.load_site(file, name=name, nodes=nodes) if file else Cluster(name=name, nodes=nodes)
    return Allocation.of(site, job)


def _job_around_us() -> int:
    number = os.environ.get("SLURM_JOB_ID", "")
    if not number.isdigit():
        raise UsageError(
            "`-c slurm` needs a Slurm job, and this is not inside one",
            hint="start one, such as `salloc -N 2`, and run railbed in it",
        )
    return int(number)


def _site_file(named: str) -> Path | None:
    if named or (named := os.environ.get("RAILBED_SITE", "")):
        return expand_home(named)
    settings = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    file = expand_home(settings) / DEFAULT_SITE
    if not exists(file):
        return None
    if reason := distrust(file):
        raise UsageError(
            f"{file} {reason}, and programs that it names would be executed",
            hint="-c slurm:FILE names another one; `chmod go-w` and `chown` make it yours",
        )
    return file


async def _report_lost_nodes(job: SlurmJob) -> None:
    at_start = os.environ.get("SLURM_JOB_NODELIST", "")
    if at_start and os.environ.get("SLURM_JOB_NUM_NODES") != str(len(job.nodes)):
        for name, report in (await lost_nodes(at_start, job)).items():
            sys.stderr.write(f"railbed: job {job.id} no longer has {name}, which Slurm reports as {report}\n")


def _machines(site: Cluster, job: SlurmJob) -> Cluster:
    """Return a site with the nodes of the job only, which are reached through it."""
    login = Login(slurm_job=job.id).over(site.login)
    nodes = {name: _node(site.nodes.get(name) or Node(host=host), name, job, login) for name, host in job.nodes.items()}
    switches = {
        name: switch.model_copy(update={"ports": tuple(port for port in switch.ports if port.node in nodes)})
        for name, switch in site.switches.items()
    }
    training = _training(site.training)
    return site.model_copy(update={"nodes": nodes, "switches": switches, "login": login, "training": training})


def _node(node: Node, name: str, job: SlurmJob, common: Login) -> Node:
    """Return a node whose steps get the GPUs that the job has there.

    A step that requests none gets what the job requested, for any number of nodes or tasks. On one node, that is too
    little (`--gpus-per-task`), or more than there is, which Slurm refuses (`--gpus`).
    """
    options, own = node.login.over(common).slurm_options or (), job.options.get(name, ())
    if not own or any(option.startswith(("--gres", "--gpus")) for option in options):
        return node
    login = Login(slurm_options=(*options, *own)).over(node.login)
    return node.model_copy(update={"login": login})


def _training(training: Training) -> Training:
    """Return what the site file sets, completed with the Python that runs railbed.

    A launcher may start another machine's files, where that Python does not exist.
    """
    if training.launcher or "python" in training.model_fields_set:
        return training
    return training.model_copy(update={"python": sys.executable})


async def _discover_ports(allocation: Allocation) -> Cluster:
    """Return the machines with the ports and GPUs that they have; unchanged if none answers."""
    known = allocation.machines
    machines = known.model_copy(update={"switches": {}})
    async with (
        live_connector(spares=False) as connect,
        Fleet(targets_of(machines), connect) as fleet,
        aclosing(discover(machines, fleet, name=known.name, existing=known, narrow=allocation.narrow)) as records,
    ):
        async for record in records:
            if isinstance(record, ClusterBuilt):
                return Cluster.model_validate(record.cluster)
    return known


def _select_gpus(gpus: tuple[Gpu, ...], indices: tuple[int, ...]) -> tuple[Gpu, ...]:
    """Return the GPUs with these numbers; those that are there if other GPUs are hidden from the job."""
    if len(gpus) <= len(indices):
        return gpus
    return tuple(gpus[index] for index in indices if index < len(gpus))
