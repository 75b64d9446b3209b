"""Counts of a run's records, from which each verb decides its exit code.

No record means an exit code by itself: a change that `discover` would make to a file is a reason for exit 1, a change
that was applied is not. A verb passes its decision to `perform`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from railbed.api.exits import DEVICE, FOUND, OK, USER
from railbed.model import events
from railbed.model.cluster.bmc import BMC_SUFFIX
from railbed.model.record import Change, Finding, Measurement, Record, Verdict
from railbed.model.text import plural


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The exit code of a verb, and why it is not 0."""

    code: int = OK
    reason: str = ""
    announced: bool = False
    """The reason is the last line on the screen."""


@dataclass(slots=True)
class Tally:
    """Counts that decide exit codes."""

    failed: int = 0
    changes: int = 0
    judged: int = 0
    unknown: int = 0
    measured: int = 0
    devices: int = 0
    answered: int = 0
    mishap: str = ""
    """Why a completed run was not successful: an intrusion, lost nodes."""
    undetermined: dict[str, None] = field(default_factory=dict)
    """Rules that training depends on and that could not be judged everywhere."""

    def count(self, record: Record) -> None:
        """Count a record."""
        match record:
            case Finding(generation=None):  # what was wrong at a restart does not decide how the run ended
                self._count_finding(record)
            case Change():
                self.changes += 1
            case events.Intrusion(message=message) | events.FellShort(message=message):
                self.mishap = message
            case Measurement():
                self.measured += 1
            case events.DeviceRead(subject=subject, ok=ok) if not subject.endswith(BMC_SUFFIX):
                self.devices += 1
                self.answered += ok
            case _:
                pass

    def _count_finding(self, finding: Finding) -> None:
        self.failed += finding.verdict is Verdict.FAIL
        if finding.verdict is Verdict.UNKNOWN and finding.essential:
            self.undetermined[finding.check] = None
        if finding.check != "reachable":
            self.unknown += finding.verdict is Verdict.UNKNOWN
            self.judged += finding.verdict in (Verdict.OK, Verdict.WARN, Verdict.FAIL)


Decide = Callable[[Tally], Conclusion]
"""A verb's decision. Unknown results have their own exit code and never count as success."""


def conclude(tally: Tally) -> Conclusion:
    """Decide for a verb that reads nodes and reports findings."""
    if tally.devices and not tally.answered:
        return Conclusion(DEVICE, "no node answered")
    if tally.unknown and not tally.judged:
        return Conclusion(DEVICE, "nothing could be judged")
    if tally.failed:
        return Conclusion(FOUND, f"{plural(tally.failed, 'finding')} failed")
    return Conclusion(FOUND, tally.mishap) if tally.mishap else Conclusion()


def conclude_check(tally: Tally, *, without_subject: str = "") -> Conclusion:
    """Decide for a check, which passes only if everything that training depends on is known.

    `without_subject` is why none of the named rules has anything to judge: then nothing was found to be well, either.
    """
    conclusion = conclude(tally)
    if conclusion.code == OK and without_subject and not tally.judged:
        conclusion = Conclusion(USER, f"nothing was judged: {without_subject}")
    if conclusion.code == OK and tally.undetermined:
        unknown = ", ".join(tally.undetermined)
        conclusion = Conclusion(DEVICE, f"training depends on rules with unknown results: {unknown}")
    return Conclusion(conclusion.code, conclusion.reason, announced=True)
