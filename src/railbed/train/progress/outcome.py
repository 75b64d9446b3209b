"""Why a training that ended normally still fell short, in one sentence: lost nodes, intruders, failed findings."""

from __future__ import annotations

from collections.abc import Iterable

from railbed.model import events
from railbed.model.record import Finding, Measurement, Record, Verdict


class Ending:
    """Watches the records of a run."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._nodes = list(nodes)
        self._last: list[str] = []
        """Nodes of the last generation."""
        self._step = 0
        self._lost: dict[str, tuple[int, str]] = {}
        """Step and reason of the last loss of each node."""
        self._failed: list[Finding] = []
        self._intruders: list[str] = []

    def add_record(self, record: Record) -> None:
        """Take a record."""
        match record:
            case Measurement(name="step_seconds", labels={"step": int(step)}):
                self._step = max(self._step, step)
            case events.GenerationStarted(nodes=nodes):
                self._last = list(nodes)
            case events.NodeLost() | events.NodeCut() | events.NodeOut():
                self._lost[record.subject] = self._step, record.message
            case events.Intrusion(address=str(address)):
                self._intruders.append(address)
            case Finding(verdict=Verdict.FAIL, generation=None):
                self._failed.append(record)
            case _:
                pass

    def event(self) -> events.FellShort | None:
        """Return why the run fell short; None if it did not."""
        missing = {node: self._lost.get(node, (0, "")) for node in self._nodes if node not in self._last}
        reasons = [_loss(node, *how) for node, how in missing.items()]
        others = [
            finding for finding in self._failed if not (finding.check == "reachable" and finding.subject in missing)
        ]
        reasons += [f"{finding.check} failed for {finding.subject}: {finding.observed}" for finding in others[:3]]
        if self._intruders:
            where = ", ".join(dict.fromkeys(self._intruders))
            reasons.append(f"a stranger at {where} tried to connect to its ranks")
        if not reasons:
            return None
        return events.FellShort(
            message=f"trained to the end, but {'; '.join(reasons)}",
            lost={node: events.LostNode(step=step, why=why) for node, (step, why) in missing.items()},
            failed=[finding.check for finding in others],
            intruders=list(dict.fromkeys(self._intruders)),
        )


def _loss(node: str, step: int, why: str) -> str:
    when = f"was lost at step {step}" if step else "did not take part"
    return f"{node} {when} ({why})" if why else f"{node} {when}"
