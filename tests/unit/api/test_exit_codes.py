"""Each verb decides its exit code; the kind of a record does not."""

from __future__ import annotations

from tests.support.events import event

from railbed.api.tally import Conclusion, Tally, conclude, conclude_check
from railbed.api.verbs.discover import conclude_discover
from railbed.model.record import Change, Event, Finding, Record, Verdict


def tally_of(*records: Record) -> Tally:
    tally = Tally()
    for record in records:
        tally.count(record)
    return tally


def finding(verdict: Verdict, *, essential: bool = False) -> Finding:
    return Finding(check="mtu", subject="n1", verdict=verdict, expected="", observed="", why="", essential=essential)


def read(*, ok: bool) -> Event:
    return event(name="device_read", subject="n1", data={"ok": ok})


CHANGE = Change(subject="nodes.n1.host", action="set", before="a", after="b")


def test_a_change_is_not_a_failure_by_itself() -> None:
    assert conclude(tally_of(CHANGE)) == Conclusion(0)


def test_discover_fails_on_a_file_that_differs_unless_it_writes_it() -> None:
    assert conclude_discover(tally_of(read(ok=True), CHANGE), write=False).code == 1
    assert conclude_discover(tally_of(read(ok=True), CHANGE), write=True).code == 0
    assert conclude_discover(tally_of(read(ok=True), read(ok=False), CHANGE), write=True).code == 3


def test_a_check_passes_only_if_everything_essential_is_known() -> None:
    known, unknown = finding(Verdict.OK), finding(Verdict.UNKNOWN, essential=True)
    assert conclude_check(tally_of(known)).code == 0
    assert conclude_check(tally_of(known, unknown)).code == 3
    assert conclude(tally_of(known, unknown)).code == 0
    assert conclude_check(tally_of(finding(Verdict.FAIL), unknown)).code == 1


def test_a_check_of_rules_without_a_subject_does_not_pass() -> None:
    why = "the cluster file has no port"
    skipped = conclude_check(tally_of(finding(Verdict.SKIPPED)), without_subject=why)
    assert (skipped.code, skipped.reason) == (2, f"nothing was judged: {why}")
    assert conclude_check(tally_of(finding(Verdict.OK)), without_subject=why).code == 0
    assert conclude_check(tally_of(read(ok=False)), without_subject=why).code == 3
