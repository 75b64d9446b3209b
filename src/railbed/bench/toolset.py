"""Every tool and every test by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from railbed import catalog
from railbed.bench import tools
from railbed.bench.tool import Tool, ToolTest

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
"""Tests that railbed runs itself, with all nodes in one job."""


@cache
def all_tools() -> Mapping[str, Tool]:
    """Return every tool by its name."""
    return catalog.collect(tools, Tool, "TOOL")


@cache
def tool_of() -> Mapping[str, Tool]:
    """Return the tool of every test, by the test's name."""
    owners: dict[str, Tool] = {}
    for tool in all_tools().values():
        for test in tool.tests:
            if test in owners:
                raise ValueError(f"{tool.name} and {owners[test].name} both have a test {test}")
            owners[test] = tool
    return owners


def test_of(name: str) -> ToolTest:
    """Return a test by name."""
    return tool_of()[name].tests[name]


def test_names() -> list[str]:
    """Return the names of all tests that a suite can contain."""
    return [*tool_of(), *COLLECTIVES]
