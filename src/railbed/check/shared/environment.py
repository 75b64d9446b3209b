"""The Python environment that nodes train with: created where the cluster file says it is, with what training needs.

What goes into it follows from the machines. All nodes get one build of torch, with code for every GPU among them: nodes
that have torch already decide for the others, and otherwise the GPUs and their drivers do, since the newest build, the
one that a package index has, drops older cards and needs a new driver. Nodes with RDMA and without GPUs get MPI.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from railbed.check.shared.nodes import most_common
from railbed.check.shared.packages import install_packages
from railbed.check.shared.port import rdma_devices
from railbed.model.fix import Fix, Persistence, RunStep, Step, as_steps
from railbed.model.requirements import EXTRAS
from railbed.probes import gpu, programs, pythons, torch
from railbed.rules.site import NodeView, Site

REQUIREMENTS = EXTRAS["train"]
"""What ranks import: the extra `train`."""
TUNING = EXTRAS["tune"]
"""What ranks import to tune existing models: the extra `tune`."""
MPI = EXTRAS["mpi"]
"""What ranks on processors import to use RDMA: the extra `mpi`."""
INSTALL_SECONDS = 1800
BEFORE = "installed-before-tuning"
"""File in an environment: what was installed there before the libraries for tuning."""
BEFORE_MPI = "installed-before-mpi"
OLDEST = (3, 10)
"""The oldest Python that runs what nodes get."""
_PYTHON = re.compile(r"(?P<prefix>/[^\s~]*[^/\s~])/bin/python[0-9.]*")
_PIP = " -I -m pip --quiet --no-input install"
PLAIN_PATH = re.compile(r"/[\w./+-]{1,200}", re.ASCII)
"""What people can copy into a cluster file without quotes."""
WITHOUT_INDEX = "with --wheels DIR it does not need to"


def package_of(requirement: str) -> str:
    """Return the name of the package that a requirement is about."""
    return re.split(r"[<>=]", requirement)[0]


def environment_prefix(python: str) -> str | None:
    """Return the folder of the environment that a Python is in; None if its path does not show it.

    Only absolute paths do: changes are made by root, whose home folder is another.
    """
    match = _PYTHON.fullmatch(python)
    return match["prefix"] if match and not match["prefix"].startswith(("/usr", "/bin")) else None


Version = tuple[int, int]
ANY_TORCH = next(requirement for requirement in REQUIREMENTS if requirement.startswith("torch"))
INDEX = "https://download.pytorch.org/whl"
RELEASE = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,2}", re.ASCII)
PUBLISHED = re.compile(r"cpu|cu\d{2,4}|rocm\d{1,2}\.\d{1,2}(?:\.\d{1,2})?", re.ASCII)
TURING: Version = (7, 5)
"""The oldest capability that CUDA 13 compiles for: Volta (V100, 7.0) and Pascal need CUDA 12."""
BLACKWELL: Version = (10, 0)
"""The oldest capability that CUDA 12.6 cannot compile for."""
CUDA_13: Version = (13, 0)
VOLTA_AND_BLACKWELL = "torch>=2.9,<2.11"
"""The releases whose build for CUDA 12.8 still has code for Volta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """A requirement of pip, and where to get it."""

    requirement: str = ANY_TORCH
    index: str = ""
    """Address of PyTorch's own package index for this build; empty for the index that pip is set up with."""


ANY_BUILD = TorchBuild()


def torch_build(site: Site) -> TorchBuild:
    """Return the build for nodes that have none yet."""
    facts = [node.try_read(torch.PROBE) for node in site.nodes]
    installed = [install.torch for install in facts if install and install.torch]
    if installed:
        return _same_as(most_common(installed))
    shown = [gpus for node in site.nodes if (gpus := node.try_read(gpu.PROBE)) and gpus.gpus]
    cards = [capability for gpus in shown for capability in _capabilities(gpus)]
    drivers = [_version(gpus.cuda) for gpus in shown if gpus.cuda]
    has_new = bool(cards) and max(cards) >= BLACKWELL
    if cards and min(cards) < TURING:
        return TorchBuild(requirement=VOLTA_AND_BLACKWELL if has_new else ANY_TORCH, index=_cuda_12(has_new))
    return TorchBuild(index=_cuda_12(has_new)) if drivers and min(drivers) < CUDA_13 else TorchBuild()


def _cuda_12(has_new: bool) -> str:
    return f"{INDEX}/{'cu128' if has_new else 'cu126'}"


def _same_as(version: str) -> TorchBuild:
    """Return the build with a version such as `2.11.0+cu126`; one that nobody published is not asked for."""
    release, _, build = version.partition("+")
    if not RELEASE.fullmatch(release) or (build and not PUBLISHED.fullmatch(build)):
        return TorchBuild()
    return TorchBuild(requirement=f"torch=={release}", index=f"{INDEX}/{build}" if build else "")


def _capabilities(gpus: gpu.Gpus) -> Iterator[Version]:
    yield from (_version(card.compute_capability) for card in gpus.gpus if card.compute_capability)


def _version(text: str) -> Version:
    major, minor = text.split(".")[:2]
    return int(major[:9]), int(minor[:9])


def uses_mpi(node: NodeView) -> bool:
    """Whether the gradients of a node go over RDMA by MPI: it has RDMA ports, and no GPU."""
    gpus = node.try_read(gpu.PROBE)
    return bool(rdma_devices(node)) and not node.node.gpus and (gpus is None or gpus.none_here)


@dataclass(frozen=True, slots=True, kw_only=True)
class BasePython:
    """The Python that an environment is created with."""

    name: str = "python3"
    package: str = ""
    """What has to be installed before; empty if it can create environments."""


ANY_PYTHON = BasePython()


def base_of(node: NodeView) -> BasePython | None:
    """Return the Python for a new environment on a node; None if it has none that is new enough."""
    facts = node.try_read(pythons.PROBE)
    if facts is None:
        return ANY_PYTHON
    wanted, able = node.site.cluster.python_of(node.name), able_pythons(node)
    name = wanted.rpartition("/")[2]
    if name.startswith("python3."):  # only such a Python puts one of this name into an environment
        able = [python for python in able if python.version.startswith(f"{name.removeprefix('python')}.")]
    chosen = next(iter(able), None)
    if chosen is None:
        return None
    manager = node.try_read(programs.PROBE)
    is_debian = manager is not None and manager.manager == "apt-get"
    return BasePython(name=chosen.name, package="" if chosen.venv or not is_debian else f"{chosen.name}-venv")


def able_pythons(node: NodeView) -> list[pythons.SystemPython]:
    """Return the Pythons in the PATH of a node that are new enough; none if they are unknown."""
    facts = node.try_read(pythons.PROBE)
    return [python for python in facts.system if _version(python.version) >= OLDEST] if facts else []


def conda_with_torch(node: NodeView) -> str:
    """Return the advice to train in a conda environment that has torch; empty if there is none on the node."""
    facts = node.try_read(pythons.PROBE)
    for environment in facts.conda if facts else ():
        is_able = environment.torch and _version(environment.version) >= OLDEST
        if is_able and PLAIN_PATH.fullmatch(environment.folder):
            name, version = environment.folder.rpartition("/")[2], environment.version
            setting = f"`python: {environment.python}` of {node.name} in the cluster file"
            return f"the conda environment {name} there has torch and Python {version}: set {setting}"
    return ""


def new_environment(node: NodeView, prefix: str) -> Fix | None:
    """Return the fix that creates the environment of a node; None if no Python there is new enough."""
    base = base_of(node)
    if base is None:
        return None
    also = MPI if uses_mpi(node) else ()
    return create_environment(node.name, prefix, base=base, build=torch_build(node.site), also=also)


def create_environment(
    node: str, prefix: str, *, base: BasePython = ANY_PYTHON, build: TorchBuild = ANY_BUILD, also: Sequence[str] = ()
) -> Fix:
    """Create an environment with what training needs, and what else is wanted, from package indexes."""
    folder, python = shlex.quote(prefix), shlex.quote(f"{prefix}/bin/python")
    before, after = install_packages("apt-get", [base.package]) if base.package else ((), ())
    others = [requirement for requirement in REQUIREMENTS if requirement != ANY_TORCH]
    # PyTorch's index has no tokenizers, and another index may have a newer torch in another build: one after the other.
    parts = [(build.index, [build.requirement]), ("", others)] if build.index else [("", [*others, build.requirement])]
    installs = [_install(python, wanted, options=f" --index-url {index}" if index else "") for index, wanted in parts]
    if also:
        installs[-1] += f" {' '.join(map(shlex.quote, also))}"
    mirror = ["a mirror of its packages"] if base.package else []
    wheels = "with --wheels DIR the mirror is enough" if mirror else WITHOUT_INDEX
    places = " and ".join([*mirror, "a package index", *(["download.pytorch.org"] if build.index else [])])
    return Fix(
        device=node,
        apply=(*before, *as_steps(f"{shlex.quote(base.name)} -I -m venv {folder}", *installs)),
        undo=(RunStep(command=f"rm -r {folder}", only_if=f"[ -e {folder}/pyvenv.cfg ]"), *after),
        persistence=Persistence.KEPT,
        seconds=INSTALL_SECONDS,
        condition=f"if {node} reaches {places}; {wheels}",
    )


def from_wheels(fix: Fix, prefix: str, folder: str, requirements: Sequence[str], *, mpi: Sequence[str]) -> Fix:
    """Return the fix that creates the same environment from a folder of wheels on the node; MPI is in some only."""
    python = shlex.quote(f"{prefix}/bin/python")
    installs = {step for step in fix.apply if isinstance(step, RunStep) and step.command.startswith(f"{python}{_PIP}")}
    others = [step for step in fix.apply if step not in installs]
    wanted = [*requirements, *(mpi if any(MPI[0] in step.command for step in installs) else ())]
    removed, *after = fix.undo
    needs_mirror = "mirror" in fix.condition
    return replace(
        fix,
        apply=(*others, *as_steps(_install(python, wanted, options=_source(folder)))),
        undo=(removed, *_removed_wheels(folder), *after),
        condition=f"if {fix.device} reaches a mirror of its packages" if needs_mirror else "",
    )


def add_libraries(node: str, prefix: str, *, wheels: str = "", after: tuple[str, ...] = ()) -> Fix:
    """Add the libraries for tuning to an environment, without changing what is in it; the undo removes what is new."""
    return _add(node, prefix, TUNING, BEFORE, wheels=wheels, after=after)


def add_mpi(node: str, prefix: str, *, wheels: str = "", after: tuple[str, ...] = ()) -> Fix:
    """Add MPI to an environment, as `add_libraries` does; it needs no other packages, and its undo removes none."""
    names = "|".join(map(package_of, MPI))
    return _add(node, prefix, MPI, BEFORE_MPI, wheels=wheels, after=after, only=f" | grep -xE {shlex.quote(names)}")


def _add(
    node: str,
    prefix: str,
    requirements: Sequence[str],
    listing: str,
    *,
    wheels: str,
    after: tuple[str, ...],
    only: str = "",
) -> Fix:
    python, before = shlex.quote(f"{prefix}/bin/python"), shlex.quote(f"{prefix}/{listing}")
    listed = f"{python} -I -m pip list --format=freeze | LC_ALL=C sort"
    added = f"{listed} | LC_ALL=C comm -13 {before} - | cut -d= -f1{only}"
    remove = f"{added} | xargs -r {python} -I -m pip --quiet --no-input uninstall -y && rm {before}"
    options = f"{_source(wheels)} --constraint {before}"
    return Fix(
        device=node,
        apply=as_steps(f"{listed} >{before}", _install(python, requirements, options=options)),
        undo=(RunStep(command=remove, only_if=f"[ -e {before} ]"), *_removed_wheels(wheels)),
        persistence=Persistence.KEPT,
        seconds=INSTALL_SECONDS,
        after=after,
        condition="" if wheels else f"if {node} reaches a package index; {WITHOUT_INDEX}",
    )


def _install(python: str, requirements: Sequence[str], *, options: str = "") -> str:
    return f"{python}{_PIP}{options} {' '.join(map(shlex.quote, requirements))}"


def _source(wheels: str) -> str:
    return f" --no-index --find-links {shlex.quote(wheels)}" if wheels else ""


def _removed_wheels(wheels: str) -> tuple[Step, ...]:
    folder = shlex.quote(wheels)
    return (RunStep(command=f"rm -r {folder}", only_if=f"[ -d {folder} ]"),) if wheels else ()
