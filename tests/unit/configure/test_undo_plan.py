"""What an undo of a node would do: all that runs is shown, and what others have changed since is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railbed.configure.planned import changed_lines, file_difference
from railbed.configure.undo_plan import NodeUndo, UndoTerms, values_of
from railbed.model.fix import FileStep, Fix, Persistence, RunStep
from railbed.model.record import Finding, Verdict

RUN = "20261116-180000-configure"
MTU, HOSTS = "mtu node1/rail0", "/etc/hosts"
BEFORE = FileStep(path=HOSTS, content="a\nb\n", mode="644", owner="0:0")
WRITTEN = replace(BEFORE, content="a\nb\nrailbed\n")
FIX = Fix(
    device="node1",
    apply=(
        RunStep(command="ip link set dev rail0 mtu 1500", part=MTU),
        RunStep(
            command="ip addr del 10.0.0.1/24 dev rail0",
            only_if="ip addr show dev rail0 | grep -q 10.0.0.1",
            verify="! ip addr show dev rail0 | grep -q 10.0.0.1",
            part="rail_address node1/rail0",
        ),
        BEFORE,
    ),
    undo=(RunStep(command="ip link set dev rail0 mtu 9000", part=MTU), WRITTEN),
    persistence=Persistence.KEPT,
)
UNDO = NodeUndo(
    fix=FIX,
    files=[WRITTEN],
    before={MTU: "1500"},
    after={MTU: "9000"},
    now={MTU: "9000"},
    terms=UndoTerms(run=RUN),
)


def test_all_that_runs_is_shown_with_conditions_verification_and_the_lines_of_files() -> None:
    plan = UNDO.plan()
    assert plan.fix.apply == FIX.apply
    mtu, address, hosts = plan.changes
    assert (mtu.subject, mtu.check, mtu.before, mtu.after) == ("node1/rail0", "mtu", "9000", "1500")
    assert mtu.apply == ("ip link set dev rail0 mtu 1500",)
    (script,) = address.apply
    assert script == FIX.apply[1].script  # type: ignore[union-attr]
    for text in ("if ip addr show dev rail0 | grep -q 10.0.0.1; then", "! ip addr show dev rail0 | grep -q 10.0.0.1"):
        assert text in script
    assert hosts.apply == (f"write {HOSTS}", "  @@ -2,2 +2 @@", "   b", "  -railbed")


def test_a_value_and_a_file_that_others_have_changed_since_stay_unless_they_are_to_be_overwritten() -> None:
    theirs = replace(WRITTEN, content="a\nb\nrailbed\ntheirs\n", mode="600")
    changed = replace(UNDO, now={MTU: "4000"}, files=[theirs])
    plan = changed.plan()
    assert [step for step in FIX.apply if step not in plan.fix.apply] == [FIX.apply[0], BEFORE]
    assert plan.fix.note == "2 of 3 changes left as they are now"
    mtu, _, hosts = plan.changes
    consent = f"`railbed configure --undo {RUN} --overwrite` undoes it all the same"
    assert (mtu.before, mtu.left_out) == ("4000", f"changed since {RUN}, which left 9000; {consent}")
    assert hosts.left_out == f"{HOSTS} was changed since {RUN}; {consent}"
    assert hosts.apply[:2] == (f"write {HOSTS}", "  mode 600 → 644, owner 0:0 → 0:0")
    assert "  -theirs" in hosts.apply
    overwriting = replace(changed, terms=UndoTerms(run=RUN, overwrite=True)).plan()
    assert (overwriting.fix.apply, overwriting.fix.note) == (FIX.apply, "")


def test_what_is_back_already_is_not_what_others_have_changed() -> None:
    """After a reboot, for example."""
    assert not any(change.left_out for change in replace(UNDO, files=[BEFORE], now={MTU: "1500"}).plan().changes)


def test_a_file_that_others_have_removed_stays_away() -> None:
    gone = replace(BEFORE, content=None, mode="", owner="")
    assert replace(UNDO, files=[gone]).plan().changes[-1].left_out


def test_a_run_that_was_cut_short_has_no_results_and_everything_is_undone() -> None:
    plan = replace(UNDO, after={}, now={MTU: "4000"}).plan()
    assert plan.fix.apply == FIX.apply
    assert plan.changes[0].before == "4000", "what is there now is shown"


def test_a_value_that_cannot_be_read_is_not_compared() -> None:
    findings = [
        Finding(check="mtu", subject="node1/rail0", verdict=verdict, expected="", observed=text, why="")
        for verdict, text in ((Verdict.OK, "9000"), (Verdict.UNKNOWN, "ip is not installed"))
    ]
    assert values_of(findings) == {MTU: "9000"}
    assert not any(change.left_out for change in replace(UNDO, now={}).plan().changes)


def test_a_device_where_everything_was_changed_is_not_touched() -> None:
    only_mtu = replace(UNDO, fix=replace(FIX, apply=FIX.apply[:1]), now={MTU: "4000"})
    assert only_mtu.plan().is_empty
    assert not UNDO.plan().is_empty


def test_what_runs_if_the_undo_fails_is_shown_and_does_not_touch_what_is_left_alone() -> None:
    """The guard runs it as root: nothing that a stored undo contains may run there unseen."""
    hidden = RunStep(command="touch /etc/hidden", part="mtu node1/rail7")
    file = replace(WRITTEN, path="/root/.bashrc")
    stored = replace(UNDO, fix=replace(FIX, undo=(*FIX.undo, hidden, file)))
    plan = stored.plan()
    assert plan.fix.undo == FIX.undo[:1], "files are restored as they are before the undo"
    assert [change.undo for change in plan.changes] == [("ip link set dev rail0 mtu 9000",), (), ()]
    of_no_part = replace(stored, fix=replace(FIX, undo=(replace(hidden, part=""),))).plan()
    assert [change.undo for change in of_no_part.changes] == [(), (), ("touch /etc/hidden",)]
    theirs = replace(stored, now={MTU: "4000"}).plan()
    assert (theirs.changes[0].left_out != "", theirs.fix.undo) == (True, ())
    assert theirs.changes[0].undo == ()


def test_what_restores_the_rest_of_a_part_is_shown_once() -> None:
    enable, disable = (RunStep(command=f"systemctl {verb} x", part="unit node1") for verb in ("enable", "disable"))
    unit, other = (FileStep(path=f"/etc/{name}", content=None, part="unit node1") for name in "ab")
    fix = replace(FIX, apply=(disable, unit, other), undo=(enable,))
    plan = replace(UNDO, fix=fix, files=[unit, other]).plan()
    assert (plan.fix.undo, [change.undo for change in plan.changes]) == ((enable,), [("systemctl enable x",), (), ()])


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\n", "a\r\n", ("@@ -1 +1 @@", "-a", "+a\r")),
        ("a\nb\n", "a\x0bb\n", ("@@ -1,2 +1 @@", "-a", "-b", "+a\x0bb")),
        ("a\n", "a", ("only the end of the last line differs",)),
        ("a\n", "a\n", ()),
        ("", "a\n", ("@@ -0,0 +1 @@", "+a")),
    ],
)
def test_everything_that_differs_between_files_is_shown(before: str, after: str, shown: tuple[str, ...]) -> None:
    assert changed_lines(before, after) == shown
    assert file_difference(before, after, "/x")[2:] == shown
