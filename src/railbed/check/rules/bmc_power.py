"""Every node is on, and its BMC reports no fault of the machine.

What
----
The power state and the faults of the chassis (IPMI), or of the system, its processors and memory (Redfish). A node
that answers while "its" BMC says that the machine is off has the BMC of another machine in the cluster file.

Why
---
A node without power explains every time-out that it causes. With the BMC of another machine in the cluster file, a
power cycle would end whatever runs there.

Fix
---
`railbed configure --power-cycle NODE` shows what it would do, and with `--apply` switches a node on, or off and on
again. For a fault, the event log of the BMC names the part.

Source
------
Intel and others, IPMI 2.0 specification, Get Chassis Status; DMTF, ComputerSystem (`PowerState`, `Status`).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.bmc import BmcView
from railbed.probes.bmc import power
from railbed.rules.judgement import Judgement, fail, ok, unknown
from railbed.rules.rule import Rule

EXPECTED = "power on, no fault"


def judge(bmc: BmcView) -> Iterator[Judgement]:
    """Judge the power state and the faults."""
    facts = bmc.read(power.PROBE)
    answers = bmc.answering_node is not None
    if facts.power == "off" and answers:
        yield fail(
            f"power off, although {bmc.node} answers: it is the BMC of another machine",
            expected=EXPECTED,
            remedy=f"correct `bmc:` of {bmc.node} in the cluster file: a power cycle would end another machine",
        )
    elif facts.power == "off":
        reason = f" (last power event: {facts.last_event})" if facts.last_event else ""
        yield fail(
            f"power off{reason}",
            expected=EXPECTED,
            remedy=f"`railbed configure --power-cycle {bmc.node}` switches it on",
        )
    elif facts.faults:
        yield fail(f"fault: {', '.join(facts.faults)}", expected=EXPECTED, remedy="look at its event log and its parts")
    elif facts.power is None:
        yield unknown(expected=EXPECTED, observed="the BMC reports no power state")
    else:
        yield ok(expected=EXPECTED, observed="power on, no fault")


RULE = Rule(
    name="bmc_power",
    title="every node is on, without a fault",
    scope="BMC",
    stage="power",
    needs=(power.PROBE,),
    judge=judge,
    doc=__doc__,
)
