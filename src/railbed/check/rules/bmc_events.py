"""The event log of a node's BMC has no recent critical entry.

What
----
Critical entries of the last 30 days by the BMC's clock, and those without a time, other than those about memory.
Redfish gives the severity; for IPMI it follows from the words of the entry.

Why
---
The BMC notices what takes a node out of a training before, or without, the operating system: a power supply, an
over-temperature, a fatal error of a bus or processor, a watchdog that reset the machine.

Fix
---
Compare the times with `railbed runs`: did a training lose the node then? Repair what the entry names, then clear the
log (`ipmitool sel clear`, or the BMC's own page), so that a new entry is noticed.

Source
------
Intel and others, IPMI 2.0 specification, System Event Log; DMTF, LogEntry (`Severity`).
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.bmc import RECENT_DAYS, BmcView
from railbed.parsing.bmc.wording import describe_events
from railbed.probes.bmc import log
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule

EXPECTED = f"no critical event in the last {RECENT_DAYS} days"


def judge(bmc: BmcView) -> Iterator[Judgement]:
    """Judge recent critical entries; what they were about may have been repaired since, so they only warn."""
    events = [event for event in bmc.recent_events() if event.severity == "critical" and not event.is_about_memory]
    if events:
        yield warn(describe_events(events), expected=EXPECTED)
    else:
        yield ok(expected=EXPECTED, observed="no critical event in the event log")


RULE = Rule(
    name="bmc_events",
    title="no recent critical events in the event log",
    scope="BMC",
    needs=(log.PROBE,),
    judge=judge,
    doc=__doc__,
)
