"""Names from the cluster file and from devices reach every program as exactly one word, whatever is in them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from tests.support.rulecase import CASES, load_yaml, site_of
from tests.support.shellwords import Shell

from railbed.bench.tool import End, Tool, ToolCall, ToolSettings, all_tools
from railbed.bench.wrapper import wrap
from railbed.capture.node import recorder
from railbed.check.book import CHECK_BOOK
from railbed.cli.slurm.watchdogs import watchdog_command
from railbed.configure.persist import PortSettings, network_files
from railbed.configure.plan import DevicePlan, Plan
from railbed.configure.planned import PlannedFix
from railbed.configure.render import rendered_files
from railbed.errors import ParseError
from railbed.fleet import change
from railbed.fleet.change import apply_script
from railbed.fleet.node_program import NodeProgram
from railbed.launch.files.ship import module_command
from railbed.model.cluster import Cluster, Node, Port, Rail, Training
from railbed.model.cluster.part import Part
from railbed.model.fix import FileStep, Fix, Persistence, RunStep, as_steps
from railbed.model.probe import PairTest, pairs_of
from railbed.model.reading import Known
from railbed.parsing.boot_unit import read_unit, render_unit
from railbed.probes.boot_config import UNIT, BootConfig
from railbed.probes.outputs import all_probes
from railbed.rules.engine import judge
from railbed.rules.site import Site
from railbed.train.capacity.fit import missing_libraries_command

MARK = "Zq"
"""In each part of every name."""
KERNEL = tuple(
    f"{MARK}{rest}"
    for rest in (";id", "$(id)", "'x", '"x', "`id`", "&id", "|id", ">x", "*", "\\x", "%n", "#r", "~r", "!r", "{a,b}")
)
"""Names that the kernel accepts for an interface, and so must the cluster file."""
FOREIGN = tuple(f"{MARK}{rest}" for rest in (" id", "\nid", "\n; id"))
"""Further texts that a device could report."""
EVERYTHING = (f"{MARK};id $(id {MARK})&|>{MARK}<*#~!{{{MARK},b}}%n", f"{MARK}'x\"{MARK}\\z`id {MARK}`\nid {MARK}")
"""Names for walks over many commands: all of this at once."""
FILES = sorted(CASES.glob("*/*.yaml"))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "stubs")


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return facts or a part of the cluster with every text that is one of the names replaced."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Part):
        changed = {name: renamed(getattr(value, name), names) for name in type(value).model_fields}
        return value.model_copy(update=changed)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{item.name: renamed(getattr(value, item.name), names) for item in fields(value)})
    if isinstance(value, Mapping):
        return {renamed(key, names): renamed(item, names) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return type(value)(renamed(item, names) for item in value)
    return value


def names_in(site: Site) -> list[str]:
    """Return the names and words of a case that fixes repeat: interfaces, governors, trust states."""
    words = {"powersave", "ondemand", "schedutil", "pcp"}
    words |= {port.netdev for _, port in site.cluster.ports()}
    for facts in site.devices.values():
        for probe, attribute in (("ip_link", "links"), ("ip_addr", "interfaces"), ("hostname", "name")):
            for reading in facts.readings.get(probe, ()):
                if isinstance(reading, Known):
                    value = getattr(reading.facts, attribute)
                    words |= {value} if isinstance(value, str) else set(value)
    return sorted(words - {"lo"})


def hostile_site(path: Path, hostile: str) -> tuple[Site, set[str]]:
    site = site_of(load_yaml(path))
    names = {name: f"{hostile}{number}" for number, name in enumerate(names_in(site))}
    devices = {
        name: replace(facts, readings=renamed_readings(facts.readings, names)) for name, facts in site.devices.items()
    }
    return Site(renamed(site.cluster, names), devices), set(names.values())


def renamed_readings(readings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        probe: tuple(
            replace(reading, facts=renamed(reading.facts, names)) if isinstance(reading, Known) else reading
            for reading in both
        )
        for probe, both in readings.items()
    }


def commands_of(fix: Fix) -> Iterator[str]:
    for step in (*fix.apply, *fix.undo):
        if isinstance(step, RunStep):
            yield from filter(None, (step.command, step.only_if, step.verify))


def is_intact(words: list[str], names: set[str]) -> bool:
    """Whether no part of a name was run, and every word that has a part of a name has all of it."""
    return words[0] != "id" and all(any(name in word for name in names) for word in words if MARK in word)


@pytest.mark.parametrize("hostile", EVERYTHING)
def test_fixes_of_all_rules_pass_names_as_one_word(hostile: str, shell: Shell) -> None:
    scripts: dict[str, set[str]] = {}
    for path in FILES:
        site, names = hostile_site(path, hostile)
        for finding in judge(CHECK_BOOK, site, [CHECK_BOOK.rules[path.parent.name]]):
            if finding.fix:
                scripts |= dict.fromkeys(commands_of(finding.fix), names)
    used = 0
    for (script, names), calls in zip(scripts.items(), shell.calls_of(list(scripts)), strict=True):
        for words in calls:
            assert is_intact(words, names), (script, words)
            used += any(word in names for word in words)
    assert used > 20, "the walk reaches the programs"


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in facts or in a part of the cluster."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Part):
        yield from texts_in([getattr(value, name) for name in type(value).model_fields])
    elif is_dataclass(value) and not isinstance(value, type):
        yield from texts_in([getattr(value, item.name) for item in fields(value)])
    elif isinstance(value, Mapping):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, list | tuple | frozenset):
        for item in value:
            yield from texts_in(item)


def one_hostile(path: Path, hostile: str) -> Iterator[Site]:
    """Yield the site of a case with another of its texts replaced each time: versions, devices, paths, all of them."""
    site = site_of(load_yaml(path))
    readings = [reading for facts in site.devices.values() for both in facts.readings.values() for reading in both]
    known = [reading.facts for reading in readings if isinstance(reading, Known)]
    for text in dict.fromkeys(texts_in([site.cluster, *known])):
        if text and text not in site.cluster.nodes and text not in site.cluster.switches:
            names = {text: hostile}
            devices = {
                name: replace(facts, readings=renamed_readings(facts.readings, names))
                for name, facts in site.devices.items()
            }
            yield Site(renamed(site.cluster, names), devices)


@pytest.mark.parametrize("hostile", EVERYTHING)
def test_fixes_of_all_rules_pass_any_text_as_one_word(hostile: str, shell: Shell) -> None:
    """Whatever a rule takes from facts or from the cluster, not only names of interfaces."""
    scripts: dict[str, None] = {}
    rules = set()
    for path in FILES:
        for site in one_hostile(path, hostile):
            with suppress(
                ParseError, ValueError, KeyError, TypeError
            ):  # no parser returns this: a word in place of a number
                for finding in judge(CHECK_BOOK, site, [CHECK_BOOK.rules[path.parent.name]]):
                    marked = [text for text in commands_of(finding.fix) if MARK in text] if finding.fix else []
                    scripts |= dict.fromkeys(marked)
                    rules |= {path.parent.name} if marked else set()
    assert rules >= {"roce_tos", "cnp_dscp", "dcqcn", "governor", "mtu", "rail_address", "hostname_unique"}
    for script, calls in zip(scripts, shell.calls_of(list(scripts)), strict=True):
        assert all(is_intact(words, {hostile}) for words in calls), (script, calls)


@pytest.mark.parametrize("hostile", KERNEL)
def test_the_cluster_file_accepts_what_the_kernel_does(hostile: str) -> None:
    assert Port(netdev=hostile, rail="r", address=ip_address("10.0.0.1")).netdev == hostile


def hostile_cluster(hostile: str) -> Cluster:
    def port(number: int) -> Port:
        return Port.model_construct(
            netdev=f"{hostile}{number}",
            rdma=f"{hostile}d",
            rail="r",
            address=ip_address(f"10.1.0.{number}"),
            rdma_port=1,
        )

    nodes = {name: Node(host=name, ports=(port(number),)) for number, name in enumerate("ab", 1)}
    training = Training.model_construct(workdir=f"/{hostile}", python=hostile, launcher=("env",), rendezvous_port=29500)
    rails = {"r": Rail.model_validate({"subnet": "10.1.0.0/24"})}
    return Cluster.model_construct(name="c", rails=rails, nodes=nodes, training=training, switches={})


@pytest.mark.parametrize("hostile", EVERYTHING)
def test_probes_pass_names_as_one_word(hostile: str, shell: Shell) -> None:
    cluster = hostile_cluster(hostile)
    scripts: dict[str, str] = {}
    for probe in all_probes().values():
        if probe.runs_on == "node" and not isinstance(probe.command, str):
            scripts[probe.name] = probe.command_for(cluster, "a")
            if isinstance(probe.command, PairTest):
                scripts[f"{probe.name} again"] = probe.command.command(cluster, list(pairs_of(cluster, "a")), True)
    used = set()
    for name, calls in zip(scripts, shell.calls_of(list(scripts.values())), strict=True):
        for words in calls:
            assert is_intact(words, {hostile}), (name, words)
            used |= {name} if any(hostile in word for word in words) else set()
    assert {"ping_mtu", "torch"} <= used


def tool_commands(tool: Tool, hostile: str) -> Iterator[str]:
    end = End(node="a", netdev=hostile, address="10.1.0.1", rdma=hostile, gpu=0, gid_index=1)
    for test in tool.tests:
        for settings in (ToolSettings(path=f"/{hostile}"), ToolSettings(both=True, streams=2, memory="gpu", size=64)):
            call = ToolCall(test=test, client=end, server=end, port=5000, settings=settings)
            version = tool.version(test) if tool.version else ""
            yield wrap(tool.client(call), end, version=version)
            if tool.server:
                yield wrap(tool.server(call), end)


@pytest.mark.parametrize("tool", sorted(all_tools()))
def test_bench_tools_pass_names_as_one_word(tool: str, shell: Shell) -> None:
    for test in all_tools()[tool].tests.values():
        shell.add(test.program)
    for hostile in EVERYTHING:
        scripts = list(tool_commands(all_tools()[tool], hostile))
        for script, calls in zip(scripts, shell.calls_of(scripts), strict=True):
            assert calls, script
            assert all(is_intact(words, {hostile}) for words in calls), calls


@pytest.mark.parametrize("hostile", [*KERNEL, *FOREIGN])
def test_programs_of_a_job_are_started_with_one_word_each(hostile: str, shell: Shell) -> None:
    """`env` and the launcher record what they start; a hostile interpreter is found under precisely its name."""
    shell.add(hostile)
    program = NodeProgram(purpose="test", package="x", folder=Path(recorder.__file__).parent, modules=("recorder",))
    scripts = [
        module_command(["env", hostile], f"/{hostile}/code/x/railbed.zip", "m", [f"/{hostile}", hostile]),
        missing_libraries_command(["env", hostile], ["peft"]),
        program.command(hostile),
        watchdog_command(hostile, 10),
    ]
    for script, calls in zip(scripts, shell.calls_of(scripts), strict=True):
        (words,) = calls
        assert words[0] in ("env", hostile), script
        assert hostile in words
        assert is_intact(words, {hostile}), script
    as_root = shell.calls(program.command(hostile, as_root=True))
    assert as_root[-1][0] == hostile
    assert all(is_intact(words, {hostile}) for words in as_root if words != ["id", "-u"])


@pytest.mark.parametrize("hostile", KERNEL)
def test_the_unit_of_systemd_runs_the_commands_as_they_are(hostile: str, shell: Shell) -> None:
    """systemd's quotes are removed as its manual describes, and a shell then gets the command of the fix."""
    fix = next(iter(fixes_of("link_up", hostile)))
    commands = [step.command for step in fix.apply if isinstance(step, RunStep)]
    unit = render_unit({f"link_up {hostile}": commands})
    assert read_unit(unit) == {f"link_up {hostile}": commands}
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    (words,) = shell.calls(systemd_words(line.removeprefix("ExecStart=-"))[2])
    assert words == ["ip", "link", "set", "dev", f"{hostile}0", "up"]
    (after,) = [line for line in unit.splitlines() if line.startswith("After=")]
    assert len(after.split()) == 5
    assert not set(after) & set("$%;'`|&>*\"")


def fixes_of(rule: str, hostile: str) -> Iterator[Fix]:
    for path in sorted((CASES / rule).glob("*.yaml")):
        site, _ = hostile_site(path, hostile)
        cluster = site.cluster
        names = {port.netdev: f"{hostile}0" for _, port in cluster.ports()}
        devices = {
            name: replace(facts, readings=renamed_readings(facts.readings, names))
            for name, facts in site.devices.items()
        }
        for finding in judge(CHECK_BOOK, Site(renamed(cluster, names), devices), [CHECK_BOOK.rules[rule]]):
            if finding.fix:
                yield finding.fix


def systemd_words(text: str) -> list[str]:
    """Split a command line as systemd.service(5) says: quotes, backslashes, `%%` and `$$`."""
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(text)]


@pytest.mark.parametrize("manager", ["netplan", "networkd", "ifupdown"])
@pytest.mark.parametrize("hostile", KERNEL)
def test_files_without_quotes_never_get_such_a_name(manager: str, hostile: str) -> None:
    """The unit sets these interfaces instead: `r*` would be all that begin with r."""
    boot = BootConfig(systemd=True, manager=manager)
    assert network_files(boot, {hostile: PortSettings(mtu=9000)}) == {}
    assert network_files(boot, {"eth1": PortSettings(mtu=9000)})
    earlier = '# railbed: {"eth1": {"mtu": "1500\\n[Match]\\nName=*", "address": null}}\n'
    assert "Name=*" not in "".join(
        network_files(replace(boot, files={UNIT: earlier}), {"eth2": PortSettings(mtu=9000)}).values()
    )


def test_a_line_of_a_file_does_not_end_the_here_document(tmp_path: Path, shell: Shell) -> None:
    """/etc/hosts of a node may contain any line, and the script that a person runs as root has all of it."""
    content = "127.0.0.1 a\nEND_OF_FILE\nid\nEND_OF_FILE1\nid\n\n"
    path = f"{tmp_path}/it's $(id)"
    fix = Fix(
        device="a", apply=(FileStep(path=path, content=content),), undo=(), persistence=Persistence.KEPT, note="x"
    )
    change = PlannedFix(checks=("x",), subject="a", before="one\nid", after="two\nid", fix=fix)
    plan = Plan(devices=(DevicePlan(device="a", kind="node", changes=(change,)),), left_out=())
    shell.add("cp")
    assert not [words for words in shell.calls(rendered_files(plan)["a.sh"]) if words[0] == "id"]
    assert Path(path).read_text() == content


def test_steps_of_a_change_are_framed_as_they_are(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What wraps a step for the guard on the device adds no further round of interpretation."""
    monkeypatch.setattr(change, "private_folder", lambda: "true")  # it is that of this machine
    script = apply_script(as_steps("ip link set dev 'r$(id)' up"), str(shell.folder / "ip"))
    assert shell.calls(script) == [["ip", "link", "set", "dev", "r$(id)", "up"]]
