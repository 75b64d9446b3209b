"""`railbed configure` on a lab: running it, what its records say, and what the emulated switch has afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.cli import Result
from tests.support.labs import RunningLab

INTERCEPT = """\
ip=$(readlink -f "$(command -v ip)") && cp "$ip" /run/ip.real && cat >/run/ip <<'END' &&
#!/bin/sh
case "$*" in
"addr replace"*) {script} ;;
*) exec /run/ip.real "$@" ;;
esac
END
chmod 755 /run/ip && mount --bind /run/ip "$ip"
"""
RELEASE = 'umount "$(readlink -f "$(command -v ip)")"; rm -f /run/ip /run/ip.real /run/waiting'


def configure(lab: RunningLab, *options: str) -> Result:
    return lab.railbed("configure", "--json", "--timeout", "120", *options)


def applied(lab: RunningLab, *options: str) -> str:
    """Apply all changes and return the name of the run."""
    result = configure(lab, "--apply", "--yes", *options)
    assert result.code == 0, result
    return runs_of(lab)[-1]


def runs_of(lab: RunningLab) -> list[str]:
    return sorted(path.name for path in (lab.folder / "runs").glob("*-configure*"))


def changes(result: Result) -> dict[str, list[str]]:
    """Return the commands of the changes by subject."""
    return {record["subject"]: record["apply"] for record in result.records if record["kind"] == "change"}


def named(result: Result, name: str) -> list[dict[str, Any]]:
    return [record for record in result.records if record.get("name") == name]


def show(lab: RunningLab, command: str) -> str:
    """Return what the switch prints, over plain ssh."""
    result = lab.shell("nexus", command)
    assert result.code == 0, result
    return result.out


def running(lab: RunningLab, which: str = "running") -> str:
    """Return a configuration of the switch, without the comments that contain the time."""
    lines = show(lab, f"show {which}-config").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("!"))


@contextmanager
def factory_switch(switch_lab: RunningLab, lab: RunningLab) -> Iterator[None]:
    """Bring the switch back to its factory state if a test leaves it in another; what it has saved counts, too."""
    states = "show running-config ; show startup-config ; show checkpoint summary"
    before = [line for line in show(lab, states).splitlines() if not line.startswith("!")]
    yield
    if switch_lab.status()["faults"]:
        switch_lab.heal()
    if [line for line in show(lab, states).splitlines() if not line.startswith("!")] != before:
        show(lab, "clear checkpoint database ; terminal dont-ask ; write erase")
        switch_lab.fault("kill", "nexus")
        switch_lab.heal()


@contextmanager
def address_command(lab: RunningLab, node: str, script: str) -> Iterator[None]:
    """Have `ip addr replace` on a node run a script instead."""
    assert lab.run_inside(node, INTERCEPT.replace("{script}", script)).code == 0
    try:
        yield
    finally:
        assert lab.run_inside(node, RELEASE).code == 0
