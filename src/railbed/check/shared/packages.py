"""Packages of the node's distribution: how a fix installs them, and how its undo removes exactly what that added.

What is installed is listed before and after, since a package brings others with it; somebody may have had some of them
before, or install more later, and both stay.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from railbed.model.fix import RunStep, Step, as_steps
from railbed.probes.programs import UNAVAILABLE

INSTALL_SECONDS = 600
FOLDER = "/var/lib/railbed"
_LIST = {
    "apt-get": "dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\\n' | sed -n 's/^ii *//p' | sort",
    "dnf": "rpm -qa --qf '%{NAME}.%{ARCH}\\n' | sort",
}
_INSTALL = {
    "apt-get": "apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install",
    "dnf": "dnf -q -y --setopt=install_weak_deps=False --setopt=strict=0 install",
}
"""dnf leaves out what its repositories lack: the others are of use without it, and the rule goes on to name it."""
_REMOVE = {"apt-get": "apt-get -qq -y purge", "dnf": "dnf -q -y remove"}


def install_packages(manager: str, packages: Iterable[str]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the steps that install packages with a package manager, and those that undo it."""
    names = list(dict.fromkeys(packages))
    before = shlex.quote(f"{FOLDER}/before-{'+'.join(names)}")
    added = shlex.quote(f"{FOLDER}/installed-{'+'.join(names)}")
    write_added = f"{_LIST[manager]} | comm -13 {before} - >{added}"
    # The list is missing if the installation failed half-way.
    remove = f"[ -e {added} ] || {write_added}; xargs -r {_REMOVE[manager]} <{added} && rm {before} {added}"
    if manager == "apt-get":
        remove += f" && rm -f {UNAVAILABLE}"
    tidy = f"rmdir --ignore-fail-on-non-empty {FOLDER}"
    write_before = f"mkdir -p {FOLDER} && {_LIST[manager]} >{before}"
    install = f"{_INSTALL[manager]} {shlex.join(names)}"
    if manager == "apt-get" and len(names) > 1:
        install = _install_available(names)
    apply = as_steps(write_before, install, write_added)
    return apply, (RunStep(command=f"{remove} && {tidy}", only_if=f"[ -e {before} ]"),)


def _install_available(names: Sequence[str]) -> str:
    """Return the command that installs those packages that apt can install, and lists the others.

    Because of one that its sources lack, apt would install none.
    """
    words = shlex.join(names)
    update, _, install = _INSTALL["apt-get"].partition("; ")
    simulate = "apt-get -qq -s --no-install-recommends install $name >/dev/null 2>&1 || echo $name"
    variable, _, command = install.partition(" ")
    return (
        f"{update}; for name in {words}; do {simulate}; done >{UNAVAILABLE}; "
        f"printf '%s\\n' {words} | grep -vxFf {UNAVAILABLE} | {variable} xargs -r {command}"
    )
