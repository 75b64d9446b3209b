"""MPI can carry the gradients of processors over RDMA: it is on all nodes, the same, and its UCX can use the cards.

What
----
On clusters with RDMA ports and without GPUs: the training Python of every node has mpi4py, it loads MPICH with UCX, UCX
lists the RDMA devices of the cluster file, and MPICH and UCX have the same versions on all nodes.

Why
---
Only MPI takes the gradients of processors over RDMA. Without it, or if UCX cannot open a card on one node, all ranks
fall back to TCP, which takes several times as long and loads the processors that should compute. Training goes on, so
nobody notices.

Fix
---
`pip install "mpi4py>=4.1" "mpich>=5.0"` in the environment that `python:` in the cluster file names: these packages
have UCX in them, and use the libraries of rdma-core on the node. `railbed configure --rule mpi_rdma --apply` does that
on all nodes, from a package index, or with `--wheels DIR` from a folder of wheels. If UCX does not list a card, see
`rdma_device`, `memlock` and `tools_installed`, which installs rdma-core.

Source
------
OpenUCX documentation, `ucx_info -d` and UCX_NET_DEVICES; MPICH documentation, the netmod ucx.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.environment import MPI, add_mpi, environment_prefix
from railbed.check.shared.nodes import gather, most_common
from railbed.check.shared.port import some
from railbed.model.fix import Fix
from railbed.probes import gpu, mpi, torch
from railbed.rules.judgement import Judgement, ok, skip, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView, Site

EXPECTED = "the same MPI with UCX on all nodes, which can use their RDMA devices"
MPICH = "MPICH"


def judge(site: Site) -> Iterator[Judgement]:
    """Blame nodes whose MPI cannot use RDMA, then those that differ from most others."""
    if any((gpus := node.try_read(gpu.PROBE)) and not gpus.none_here for node in site.nodes):
        yield skip("NCCL carries the gradients of GPUs")
        return
    installs = gather(site, mpi.PROBE, lambda facts: facts, EXPECTED)
    yield from installs.missing
    able: dict[str, mpi.Mpi] = {}
    without_torch: list[str] = []
    for node in site.nodes:
        facts = installs.values.get(node.name)
        if facts is None:
            continue
        training = node.try_read(torch.PROBE)
        if training and not training.torch:
            without_torch.append(node.name)
        elif wrong := _obstacle(node, facts):
            yield wrong
        else:
            able[node.name] = facts
    if without_torch:
        yield skip(f"no torch on {some(without_torch)}: see torch_equal")
    yield from _compare(able, is_complete=len(able) == len(site.cluster.nodes))


def _obstacle(node: NodeView, facts: mpi.Mpi) -> Judgement | None:
    """Return why the MPI of a node cannot use RDMA, with what repairs it; None if it can."""
    if facts.mpi4py is None or facts.library is None:
        missing = "no mpi4py" if facts.mpi4py is None else f"mpi4py {facts.mpi4py}, but no MPI library"
        python = node.site.cluster.interpreter_of(node.name)
        prefix = environment_prefix(python[0]) if len(python) == 1 else None
        fix = add_mpi(node.name, prefix) if prefix else None
        remedy = "" if fix else f"on {node.name}: {' '.join(python)} -I -m pip install {' '.join(map(repr, MPI))}"
        return _warn(node, missing, remedy=remedy, fix=fix, evidence=facts.problem or "")
    if not facts.library.startswith(MPICH):
        observed = f"{_words(facts)}, which railbed does not use"
        return _warn(node, observed, remedy="install mpich for the training Python")
    if facts.ucx is None:
        observed = f"{_words(facts)} without UCX"
        return _warn(node, observed, remedy="install the package mpich of a package index, which has UCX in it")
    if facts.devices is None:
        return _warn(node, f"UCX {facts.ucx} does not start", remedy=_advice(node), evidence=facts.problem or "")
    wanted = [f"{port.rdma}:{port.rdma_port}" for port in node.node.rdma_ports if port.rdma]
    gone = [device for device in wanted if device not in facts.devices]
    if not gone:
        return None
    observed = f"UCX {facts.ucx} cannot use {', '.join(gone)}: it lists {', '.join(facts.devices) or 'none'}"
    return _warn(node, observed, remedy=_advice(node))


def _warn(node: NodeView, observed: str, *, remedy: str, fix: Fix | None = None, evidence: str = "") -> Judgement:
    return warn(subject=node.name, expected=EXPECTED, observed=observed, remedy=remedy, fix=fix, evidence=evidence)


def _advice(node: NodeView) -> str:
    return f"on {node.name}, first what rdma_device, memlock and tools_installed advise: UCX uses rdma-core's libraries"


def _compare(installs: dict[str, mpi.Mpi], *, is_complete: bool) -> Iterator[Judgement]:
    if not installs:
        return
    usual = most_common(_words(facts) for facts in installs.values())
    for node, facts in installs.items():
        if _words(facts) != usual:
            remedy = f"install the version of the other nodes on {node}"
            yield warn(subject=node, expected=usual, observed=_words(facts), remedy=remedy)
    if is_complete and all(_words(facts) == usual for facts in installs.values()):
        yield ok(expected=EXPECTED, observed=usual)


def _words(facts: mpi.Mpi) -> str:
    library = " ".join((facts.library or "").replace("Version:", "").split())
    return f"{library}, UCX {facts.ucx}" if facts.ucx else library


def _pointless(site: Site) -> str:
    nodes = site.cluster.nodes.values()
    if not any(port.rdma for node in nodes for port in node.rdma_ports):
        return "no RDMA device in the cluster file"
    if any(node.gpus for node in nodes):
        return "NCCL carries the gradients of GPUs"
    return "only one node" if len(nodes) < 2 else ""


RULE = Rule(
    name="mpi_rdma",
    title="MPI can carry the gradients of processors over RDMA",
    scope="cluster",
    needs=(gpu.PROBE, mpi.PROBE, torch.PROBE),
    judge=judge,
    unless=_pointless,
    doc=__doc__,
)
