"""All nodes train with the same Python and PyTorch.

What
----
The Python named in the cluster file (`python:` of a node) exists and has PyTorch, and Python's minor version, PyTorch's
version and its CUDA or ROCm build are the same on all nodes. The most common versions are taken as the right ones, of
those with which a rank can start: not with a Python that is too old (see `python_version`) or a torch that fails to
import.

Why
---
PyTorch and NCCL use their own protocols, which change between releases without negotiation: a rank with another
version hangs in the first collective or ends it with an error that names the network. Checkpoints and compiled code
from one Python do not load in another.

Fix
---
Install the same wheel on every node from one list of pinned versions (`pip install -r requirements.txt`), or share one
virtual environment on a network file system. Set `python:` in the cluster file if the interpreter is elsewhere. If it
names an environment that does not exist yet (`/data/railbed/env/bin/python`), `railbed configure --rule torch_equal`
creates it with what training needs: from a package index, or with `--wheels DIR` from a folder of wheels. Torch is the
release and build that other nodes have, or else a build with code for all GPUs (CUDA 12.6 for a V100); nodes with RDMA
and without GPUs also get MPI.

Source
------
PyTorch documentation, torch.distributed; NVIDIA/nccl#1328 (a message of the wrong size: versions differ between ranks).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.rules import python_version
from railbed.check.shared.environment import conda_with_torch, environment_prefix, new_environment
from railbed.check.shared.nodes import gather, most_common, too_few, with_training
from railbed.model.record import Finding
from railbed.probes import gpu, programs, pythons, torch
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView, Site

EXPECTED = "the same Python and torch on all nodes"
NOWHERE, NO_TORCH, NO_PYTHON = "no node has torch", "no torch", "no Python at"


def judge(site: Site) -> Iterator[Judgement]:
    """Blame nodes that cannot train at all, then those that differ from most others."""
    installs = gather(site, torch.PROBE, lambda facts: facts, EXPECTED)
    yield from installs.missing
    able = {node: facts for node, facts in installs.values.items() if facts.torch and not _cannot_start(facts)}
    if installs.values and not any(facts.torch or facts.python is None for facts in installs.values.values()):
        yield warn(
            expected=EXPECTED,
            observed=NOWHERE,
            remedy=with_training(site.cluster) or "install torch on every node, or set `python:` in the cluster file",
        )
        return
    views = {view.name: view for view in site.nodes}
    for node, facts in installs.values.items():
        if not facts.torch:
            yield _cannot_train(views[node], facts)
        elif reason := _cannot_start(facts):
            remedy = "" if facts.import_error else "first what python_version advises"
            yield fail(
                subject=node, expected=EXPECTED, observed=reason, remedy=remedy, evidence=facts.import_error or ""
            )
    if len(able) > 1:
        yield from _compare(able, complete=len(able) == len(installs.values))
    elif not installs.values.keys() - able.keys():
        yield from too_few(site, installs)


def is_missing(finding: Finding) -> bool:
    """Whether a finding of this rule is about missing Python or torch, rather than different versions."""
    words = (finding.observed == NOWHERE, finding.observed.endswith(NO_TORCH), finding.observed.startswith(NO_PYTHON))
    return finding.check == RULE.name and any(words)


def _cannot_start(facts: torch.Torch) -> str:
    """Return why no rank starts with an installed torch; empty if nothing is known to prevent it."""
    if python_version.is_too_old(facts.python):
        return f"Python {facts.python}: too old for any rank"
    return f"torch {facts.torch} does not import" if facts.import_error else ""


def _cannot_train(view: NodeView, facts: torch.Torch) -> Judgement:
    node, cluster = view.name, view.site.cluster
    words, python = cluster.interpreter_of(node), " ".join(cluster.interpreter_of(node))
    conda = conda_with_torch(view)
    if facts.python is None:
        prefix = environment_prefix(python) if len(words) == 1 else None
        fix = new_environment(view, prefix) if prefix else None
        missing = "a Python there that is new enough for it" if prefix else "it"
        remedy = "" if fix else conda or f"correct `python:` of {node} in the cluster file, or install {missing}"
        return fail(subject=node, expected=EXPECTED, observed=f"{NO_PYTHON} {python}", remedy=remedy, fix=fix)
    observed = f"Python {facts.python}, {NO_TORCH}"
    isolated = python_version.isolation(facts.python)
    install = f"on {node}: {python} {isolated} -m pip install torch"
    return fail(subject=node, expected=EXPECTED, observed=observed, remedy=with_training(cluster) or conda or install)


def _compare(installs: dict[str, torch.Torch], *, complete: bool) -> Iterator[Judgement]:
    usual = most_common(_identity(facts) for facts in installs.values())
    differing = {node: facts for node, facts in installs.items() if _identity(facts) != usual}
    for node, facts in differing.items():
        wrong = fail if (facts.release, facts.build == "CPU") != (usual[1], usual[2] == "CPU") else warn
        yield wrong(subject=node, expected=_words(usual), observed=_words(_identity(facts)))
    if complete and not differing:
        yield ok(expected=EXPECTED, observed=_words(usual))


def _identity(facts: torch.Torch) -> tuple[str, str, str]:
    minor = ".".join((facts.python or "").split(".")[:2])
    return minor, facts.release or "", facts.build


def _words(identity: tuple[str, str, str]) -> str:
    python, release, build = identity
    return f"Python {python}, torch {release}, {build}"


RULE = Rule(
    name="torch_equal",
    title=EXPECTED,
    scope="cluster",
    stage="environment",
    needs=(torch.PROBE, gpu.PROBE, programs.PROBE, pythons.PROBE),
    judge=judge,
    doc=__doc__,
    essential=True,
)
