"""The processors run at full speed all the time.

What
----
The frequency governor of every logical processor is `performance`, and the next boot restores it:
tuned, cpupower, cpufrequtils, the kernel's own default or railbed's unit. It is a warning if none of them does, or one
sets another.

Why
---
Between two bursts of gradients a processor with `powersave`, `ondemand` or `schedutil` slows down, and has to speed up
again when the next completion arrives. That adds tens of microseconds to every message, on one node at random: the
all-reduce waits for the slowest each time.

Fix
---
Write `performance` to `/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`, as `cpupower frequency-set -g
performance` does. Make it persistent with `tuned-adm profile network-latency` or a systemd unit. Set the BIOS power
profile to maximum performance as well.

Source
------
Linux kernel documentation, admin-guide/pm/cpufreq (generic scaling governors).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from railbed.check.shared.boot import survives
from railbed.check.shared.boot_host import HOST_PROBES, governor_after_boot
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.probes import cpu
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import HandStep, Rule
from railbed.rules.site import NodeView

EXPECTED = "governor performance"
FILES = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look at the governors that are set."""
    facts = node.read(cpu.PROBE)
    if facts.governors is None:
        yield _nothing_to_see(facts)
        return
    others = {name: count for name, count in facts.governors.items() if name != "performance"}
    if others:
        observed = ", ".join(f"{count} x {name}" for name, count in others.items())
        # Which processor had which governor is not known: a mixture could not be restored exactly.
        fix = _fix(node, *facts.governors) if len(facts.governors) == 1 else None
        yield warn(expected=EXPECTED, observed=observed, fix=fix, remedy="" if fix else _command("performance"))
    else:
        right = ok(expected=EXPECTED, observed=f"performance on {sum(facts.governors.values())} processors")
        fix = _fix(node, "performance")
        yield survives(right, governor_after_boot(node, RULE.name, fix, "performance"), fix)


def _command(governor: str) -> str:
    return f"echo {shlex.quote(governor)} | tee {FILES}"


def _fix(node: NodeView, before: str) -> Fix:
    return Fix(
        device=node.name,
        apply=as_steps(_command("performance")),
        undo=as_steps(_command(before)),
        persistence=Persistence.BOOT,
    )


def _nothing_to_see(facts: cpu.Cpu) -> Judgement:
    if facts.hypervisor:
        return skip("no frequency control visible (virtual machine)", expected=EXPECTED)
    return unknown(expected=EXPECTED, observed="no frequency control visible; the firmware may control it")


def _by_hand(node: NodeView) -> Iterator[HandStep]:
    yield HandStep(
        node.name, "set the power profile to maximum performance in the BIOS (of a VM: on its host)", proven=False
    )


RULE = Rule(
    name="governor",
    title="processors at full speed",
    scope="node",
    stage="BIOS",
    needs=(cpu.PROBE, *HOST_PROBES),
    judge=judge,
    by_hand=_by_hand,
    doc=__doc__,
    rank=60,
)
