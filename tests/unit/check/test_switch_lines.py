"""The table of docs/switches.md: every line that configure can enter on a Nexus, and nothing that it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from tests.support.nexus import PORTS, checks, connected, judged, repair
from tests.switchlab.nexus.support import LOSSLESS

from railbed.configure.undo_plan import UndoTerms, plan_switch
from railbed.model.fix import ALL_PORTS, ConfigStep, Fix, Interruption, Persistence
from railbed.parsing.nexus.interruption import interruption_of
from railbed.parsing.nexus.slots import ConfigSection, changed_between, parse_lines
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch

PAGE = Path(__file__).parents[3] / "docs" / "switches.md"
WORD = {"NAME": r"\S+", "PORT": r"\S+", "NUMBER": r"\d+"}
KINDS = {"all": {"n9k", "n5k"}, "Nexus 9000": {"n9k"}, "Nexus 5000": {"n5k"}}
IN_FORCE = "where the policy is in force"
INTERRUPTS = {
    "nothing": Interruption(),
    "the port": Interruption(losing=("Ethernet1/1",)),
    "the link of the port": Interruption(flapping=("Ethernet1/1",)),
    "all ports": Interruption(losing=(ALL_PORTS,)),
}
SHUT = "interface Ethernet1/2\n  shutdown\n"
FLOW_CONTROL = "interface Ethernet1/1\n  flowcontrol receive on\n  flowcontrol send on\n"
WRONG = {
    "from the factory": FLOW_CONTROL + SHUT,
    "without policies": "",
    "a policy of the site": LOSSLESS.replace(" ecn\n", "\n"),
    "a class that lost its match": LOSSLESS.replace("match dscp 26", "match cos 3"),
    "no watchdog": LOSSLESS.replace("priority-flow-control watch-dog-interval on\ninterface", "interface"),
    "a port-channel": "interface Ethernet1/1-2\n  channel-group 10 mode active\n",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    path: tuple[str, ...]
    families: frozenset[str]
    interrupts: str
    undo: str
    guide: str

    def covers(self, path: tuple[str, ...]) -> bool:
        return len(path) == len(self.path) and all(map(_matches, self.path, path))


def _matches(template: str, line: str) -> bool:
    pattern = re.escape(template)
    for word, meaning in WORD.items():
        pattern = pattern.replace(word, meaning)
    return re.fullmatch(pattern, line) is not None


@cache
def rows() -> tuple[Row, ...]:
    text = PAGE.read_text().split("| line | on | interrupts | undone by | guide |")[1]
    listed = []
    for line in text.splitlines()[2:]:
        if not line.startswith("|"):
            break
        lines, families, interrupts, undo, guide = (cell.strip() for cell in line.strip("|").split(" | "))
        path = tuple(part.strip("`") for part in lines.split(" / "))
        listed.append(Row(path, frozenset(KINDS[families]), interrupts, undo.strip("`"), guide))
    return tuple(listed)


def paths(section: ConfigSection, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every line of a configuration that has none below it, with the lines above it."""
    for below in section.below.values():
        if below.below:
            yield from paths(below, (*above, below.line))
        else:
            yield (*above, below.line)


@cache
def repaired(platform: str, config: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines that the fixes of a switch enter, and those that undo them."""
    switch = connected(platform, WRONG[config])
    before = _running(switch)
    findings = judged(switch)
    assert repair(switch, findings) == []
    steps = [step for finding in findings if finding.fix for step in finding.fix.apply]
    entered = [line for step in steps if isinstance(step, ConfigStep) for line in step.lines]
    after = _running(switch)
    saved = Fix(device="s1", apply=tuple(changed_between(before, after)), undo=(), persistence=Persistence.KEPT)
    undo = plan_switch(saved, after, half_undone=False, terms=UndoTerms(run="r"))
    undone = [line for step in undo.fix.apply if isinstance(step, ConfigStep) for line in step.lines]
    return tuple(entered), tuple(undone)


def _running(switch: Switch) -> ConfigSection:
    return parse_lines(switch.running_text().splitlines())


def situations() -> Iterable[tuple[str, str]]:
    for platform in PLATFORMS:
        fitting = WRONG if PLATFORMS[platform].queues == 8 and PLATFORMS[platform].family == "n9k" else ()
        yield from ((platform, config) for config in {*fitting, "from the factory", "without policies"})


SITUATIONS = sorted(situations())


@pytest.mark.parametrize(("platform", "config"), SITUATIONS)
def test_every_line_that_a_fix_enters_is_in_the_table(platform: str, config: str) -> None:
    family = PLATFORMS[platform].family
    entered, _ = repaired(platform, config)
    assert entered
    for path in paths(parse_lines(entered)):
        covering = [row for row in rows() if row.covers(path)]
        assert len(covering) == 1, path
        assert family in covering[0].families, path


@pytest.mark.parametrize("row", rows(), ids=lambda row: " / ".join(row.path))
def test_every_row_can_happen_on_each_of_its_switches_and_is_undone_as_it_says(row: Row) -> None:
    for family in row.families:
        own = [repaired(*situation) for situation in SITUATIONS if PLATFORMS[situation[0]].family == family]
        producing = [undone for entered, undone in own if any(map(row.covers, paths(parse_lines(entered))))]
        assert producing, f"no fix for a {family} enters it"
        undoing = [line.strip() for undone in producing for line in undone]
        assert any(_matches(row.undo, line) for line in undoing), undoing


@pytest.mark.parametrize("row", rows(), ids=lambda row: " / ".join(row.path))
def test_a_row_says_what_the_line_interrupts(row: Row) -> None:
    path = [line.replace("PORT", "Ethernet1/1").replace("NAME", "P").replace("NUMBER", "3") for line in row.path]
    lines = [f"{'  ' * depth}{line}" for depth, line in enumerate(path)]
    if row.interrupts != IN_FORCE:
        assert interruption_of(lines, {}) == INTERRUPTS[row.interrupts]
        return
    kind = f"{path[0].split()[2]} P"
    assert interruption_of(lines, {}) == INTERRUPTS["nothing"]
    assert interruption_of(lines, {kind: frozenset({PORTS[0]})}) == INTERRUPTS["the port"]
    assert interruption_of(lines, {kind: frozenset({"system qos"})}) == INTERRUPTS["all ports"]


def test_every_row_names_a_guide() -> None:
    assert len(rows()) > 20
    assert [row.path for row in rows() if not re.match(r"(QG|IG), [A-Z]|Configuring QoS$", row.guide)] == []


def test_every_rule_that_changes_switches_is_tried() -> None:
    """A rule that gets a fix later must be added to what is tried here, or its lines would be missed."""
    fixed = {
        finding.check
        for platform, config in SITUATIONS
        for finding in judged(connected(platform, WRONG[config]))
        if finding.fix
    }
    without = {"switch_counters", "switch_optics", "switch_pending"}
    assert {rule.name for rule in checks()} - without == fixed
