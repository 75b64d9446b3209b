"""The event log of a node's BMC has no recent memory errors.

What
----
Entries about memory (ECC, DIMM) of the last 30 days by the BMC's clock, and those without a time. Errors that could
not be corrected fail; corrected ones are a warning.

Why
---
An error that cannot be corrected ends a rank or the whole node, at worst again and again at the same step. Corrected
errors often come before it, and each one takes time on the processor.

Fix
---
Replace or reseat the DIMM that the log names; then clear the log with `ipmitool sel clear`, or on the BMC's own page,
so that a new entry is noticed.

Source
------
Intel and others, IPMI 2.0 specification, sensor type Memory (0Ch); DMTF, LogEntry.
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.bmc import RECENT_DAYS, BmcView
from railbed.parsing.bmc.wording import describe_events
from railbed.probes.bmc import log
from railbed.rules.judgement import Judgement, fail, ok, warn
from railbed.rules.rule import Rule

EXPECTED = f"no memory error in the last {RECENT_DAYS} days"


def judge(bmc: BmcView) -> Iterator[Judgement]:
    """Judge recent entries about memory."""
    errors = [
        event for event in bmc.recent_events() if event.is_about_memory and event.severity in ("warning", "critical")
    ]
    lost = [event for event in errors if event.is_uncorrectable]
    if lost:
        yield fail(describe_events(lost), expected=EXPECTED)
    elif errors:
        yield warn(describe_events(errors), expected=EXPECTED)
    else:
        yield ok(expected=EXPECTED, observed="no memory error in the event log")


RULE = Rule(
    name="bmc_memory",
    title="no recent memory errors in the event log",
    scope="BMC",
    needs=(log.PROBE,),
    judge=judge,
    doc=__doc__,
)
