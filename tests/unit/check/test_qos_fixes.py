"""The fixes of traffic classes and receive buffers make any card right, with values that no driver refuses."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.support.rulecase import site_of

from railbed.check.book import CHECK_BOOK
from railbed.model.fix import RunStep
from railbed.model.record import Finding, Verdict
from railbed.probes import dcb_buffer, dcb_ets
from railbed.rules.engine import judge

EIGHT = st.lists(st.integers(0, 7), min_size=8, max_size=8)
PFC = "==> eth1 <==\nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off"


def row(values: Sequence[object]) -> str:
    return " ".join(f"{index}:{value}" for index, value in enumerate(values))


def judged(rule: str, probe: str, text: str) -> Finding:
    """Judge a port for which `dcb` shows a text."""
    facts = {"a": {probe: f"==> eth1 <==\n{text}\n", "dcb_pfc": PFC}}
    (finding,) = judge(CHECK_BOOK, site_of({"facts": facts}), [CHECK_BOOK.rules[rule]])
    return finding


def values_of(finding: Finding, part: str, command: str) -> str:
    """Return what the only step of a fix sets, which is written as `dcb` shows it."""
    assert finding.fix
    (step,) = finding.fix.apply if part == "apply" else finding.fix.undo
    assert isinstance(step, RunStep)
    assert step.command.startswith(command)
    return step.command.removeprefix(command)


@given(
    prio_tc=EIGHT,
    algorithms=st.lists(st.sampled_from(["strict", "ets", "vendor", "cbs"]), min_size=8, max_size=8),
    shares=st.lists(st.integers(0, 100), min_size=8, max_size=8),
)
def test_traffic_classes_are_right_after_the_fix(prio_tc: list[int], algorithms: list[str], shares: list[int]) -> None:
    text = f"prio-tc {row(prio_tc)} tc-tsa {row(algorithms)} tc-bw {row(shares)}"
    finding = judged("ets", "dcb_ets", text)
    if finding.verdict is Verdict.OK:
        return
    assert finding.verdict is Verdict.WARN
    applied = values_of(finding, "apply", "dcb ets set dev eth1 ")
    assert judged("ets", "dcb_ets", applied).verdict is Verdict.OK
    ets = dcb_ets.parse(f"==> eth1 <==\n{applied}").interfaces["eth1"]
    by_class = list(zip(ets.tc_tsa, ets.tc_bw, strict=True))
    assert sum(share for tsa, share in by_class if tsa == "ets") == 100
    assert all((share > 0) == (tsa == "ets") for tsa, share in by_class), "drivers refuse other shares"
    before = dcb_ets.parse(f"==> eth1 <==\n{values_of(finding, 'undo', 'dcb ets set dev eth1 ')}").interfaces["eth1"]
    assert (before.prio_tc, before.tc_tsa) == (tuple(prio_tc), tuple(algorithms))
    assert all(share == shares[number] for number, share in enumerate(before.tc_bw) if algorithms[number] == "ets")


@given(prio_buffer=EIGHT, sizes=st.lists(st.integers(0, 300_000), min_size=8, max_size=8))
def test_receive_buffers_are_right_after_the_fix(prio_buffer: list[int], sizes: list[int]) -> None:
    finding = judged("buffers", "dcb_buffer", f"prio-buffer {row(prio_buffer)} buffer-size {row(sizes)}")
    if finding.verdict is Verdict.OK or finding.fix is None:
        return
    assert finding.verdict is Verdict.WARN
    applied = values_of(finding, "apply", "dcb buffer set dev eth1 ")
    assert judged("buffers", "dcb_buffer", applied).verdict is Verdict.OK
    after = dcb_buffer.parse(f"==> eth1 <==\n{applied}").interfaces["eth1"]
    assert sum(after.sizes) == sum(sizes), "no more than the card has"
    undone = values_of(finding, "undo", "dcb buffer set dev eth1 ")
    before = dcb_buffer.parse(f"==> eth1 <==\n{undone}").interfaces["eth1"]
    assert (before.prio_buffer, before.sizes) == (tuple(prio_buffer), tuple(sizes))
