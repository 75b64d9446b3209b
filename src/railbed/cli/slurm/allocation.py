"""The cluster `slurm`: the nodes that the Slurm job around us has now, discovered each time it is used."""

from __future__ import annotations

import os
import sys
from contextlib import aclosing
from pathlib import Path

from railbed import clusterfile
from railbed.cli.signals import run_until_ended
from railbed.discover.run import discover
from railbed.errors import UsageError
from railbed.fleet import Fleet
from railbed.model.cluster import Cluster, Login, Node
from railbed.model.events import ClusterBuilt
from railbed.transport.base import targets_of
from railbed.transport.connect import live_connector
from railbed.transport.slurm import SlurmJob, lost_nodes, read_job

DEFAULT_SITE = "railbed/slurm.yaml"


def allocation_cluster(site: str) -> Cluster:
    """Return the nodes of the job around us as a cluster; `site` is the site file, if one is named."""
    return run_until_ended(_allocation(_site_file(site)))


async def _allocation(file: Path | None) -> Cluster:
    job = await read_job(_job_around_us())
    await _report_lost_nodes(job)
    nodes = {name: Node(host=address, python=sys.executable) for name, address in job.nodes.items()}
    name = f"slurm-{job.id}"
    site = clusterfile.load_site(file, name=name, nodes=nodes) if file else Cluster(name=name, nodes=nodes)
    described = _of_job(site, job)
    return _on_rails_of(site, await _discovered(described))


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
        return Path(named).expanduser()
    settings = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    file = Path(settings).expanduser() / DEFAULT_SITE
    return file if file.exists() else None


async def _report_lost_nodes(job: SlurmJob) -> None:
    at_start = os.environ.get("SLURM_JOB_NODELIST", "")
    if at_start and os.environ.get("SLURM_JOB_NUM_NODES") != str(len(job.nodes)):
        for name, report in (await lost_nodes(at_start, job)).items():
            sys.stderr.write(f"railbed: job {job.id} no longer has {name}, which Slurm reports as {report}\n")


def _of_job(site: Cluster, job: SlurmJob) -> Cluster:
    """Return a site with the nodes of the job only, which are reached through it."""
    nodes = {name: site.nodes.get(name) or Node(host=host, python=sys.executable) for name, host in job.nodes.items()}
    switches = {
        name: switch.model_copy(update={"ports": tuple(port for port in switch.ports if port.node in nodes)})
        for name, switch in site.switches.items()
    }
    login = Login(slurm_job=job.id).over(site.login)
    return site.model_copy(update={"nodes": nodes, "switches": switches, "login": login})


async def _discovered(cluster: Cluster) -> Cluster:
    """Return the cluster with the ports and GPUs that its nodes have; unchanged if no node answers."""
    machines = cluster.model_copy(update={"switches": {}})
    async with (
        live_connector() as connect,
        Fleet(targets_of(machines), connect) as fleet,
        aclosing(discover(machines, fleet, name=cluster.name, existing=cluster)) as records,
    ):
        async for record in records:
            if isinstance(record, ClusterBuilt):
                return Cluster.model_validate(record.cluster)
    return cluster


def _on_rails_of(site: Cluster, cluster: Cluster) -> Cluster:
    """Return the cluster without networks that the site file does not list as rails, if it lists any."""
    if not site.rails:
        return cluster
    nodes = {
        name: node.model_copy(update={"ports": tuple(port for port in node.ports if port.rail in site.rails)})
        for name, node in cluster.nodes.items()
    }
    return cluster.model_copy(update={"rails": dict(site.rails), "nodes": nodes})
