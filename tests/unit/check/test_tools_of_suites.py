"""The rule `tools_installed` names what the built-in suites and the rules run; each has a package for every manager."""

from __future__ import annotations

from railbed.bench.suites import load, names
from railbed.bench.tool import COLLECTIVES, tool_of
from railbed.check.book import CHECK_BOOK
from railbed.check.rules.tools_installed import EVERYWHERE, FOR_CABLES, FOR_RDMA, PACKAGES
from railbed.probes import programs

WANTED = {*EVERYWHERE, *FOR_RDMA, *FOR_CABLES}
NOT_PACKAGED = {"nccl-tests"}
"""To be compiled with the node's CUDA and NCCL; the suites leave it out where it is missing."""
ON_EVERY_SYSTEM = {"df", "lscpu", "ss"}
OF_A_VENDOR = {"mlnx_qos", "nvidia-smi", "show_gids"}
"""They come with a driver, and rules do without."""


def test_every_program_of_a_suite_is_looked_for() -> None:
    tests = {step.test for name in names() for step in load(name).steps} - set(COLLECTIVES)
    assert len(tests) > 10
    programs_of = {tool_of()[test].tests[test].program for test in tests if tool_of()[test].package not in NOT_PACKAGED}
    packages = {package for program in WANTED for package in PACKAGES["apt-get"][program]}
    assert {tool_of()[test].package for test in tests} - NOT_PACKAGED <= packages
    of_perftest = {program for program in programs_of if program.startswith("ib_")}  # they come together
    assert programs_of - of_perftest <= WANTED
    assert of_perftest & WANTED


def test_every_program_that_a_rule_needs_is_looked_for() -> None:
    needed = {
        (probe.tool, probe.package)
        for rule in CHECK_BOOK.rules.values()
        for probe in rule.probes
        if probe.tool and probe.runs_on == "node"
    }
    tools = dict(needed)
    assert tools.keys() - ON_EVERY_SYSTEM - OF_A_VENDOR <= WANTED
    assert {name: tools[name] for name in tools.keys() & WANTED if tools[name] not in PACKAGES["apt-get"][name]} == {}


def test_each_has_a_package_for_every_manager() -> None:
    assert set(programs.PROGRAMS) == WANTED
    assert {manager: set(packages) for manager, packages in PACKAGES.items()} == dict.fromkeys(
        programs.MANAGERS, WANTED
    )
