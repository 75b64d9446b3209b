"""No input may hang railbed: everything that reads foreign text takes linear time.

Every regular expression of the source is collected by itself, so a new one is tested from its first day.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from railbed.bench.tool import all_tools
from railbed.bench.wrapper import unwrap
from railbed.clusterfile import loads
from railbed.errors import RailbedError
from railbed.launch.messages import decode
from railbed.model.private import scrub
from railbed.probes.outputs import all_probes
from railbed.store import read_record
from tests.support import growth
from tests.support.growth import Expression, all_expressions, slow_inputs, superlinear, unnamed_patterns

pytestmark = pytest.mark.xdist_group("linear")  # collecting the expressions loads everything
CASES = Path(__file__).parent / "cases"
PARTS = 12
MUCH_SECONDS = 4.0
"""Processor time that no reader needs for five hundred lines; what is exponential passes it by far."""
OUR_OWN_TEXT = ["railbed.rules.rule"]
"""Reads the docstrings of rules."""


@pytest.fixture(scope="module")
def expressions() -> list[Expression]:
    return all_expressions()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_regular_expression_is_linear(part: int, expressions: list[Expression]) -> None:
    slow = growth.all_of(expressions[part::PARTS])
    assert not slow, f"these take more than linear time; possessive repeats (`\\s*+`) often help: {slow}"


def test_all_expressions_are_collected(expressions: list[Expression]) -> None:
    places = {expression.where for expression in expressions}
    assert {
        "railbed.probes.ping_mtu.REPLY",
        "railbed.model.private._ASSIGNED",
        "railbed.yamlfile.document.VERSION",
    } <= places
    assert len(places) > 100
    assert [place.partition(":")[0] for place in unnamed_patterns()] == OUR_OWN_TEXT, (
        "compile it and give it a name, so that this test can see it"
    )


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r".*(unreachable|prohibited).*", "search"),
        (r"^\s*Test\b", "search"),
        (r"(\S.*?)\s*:\s*([^:]*)", "fullmatch"),
        (r"(a+)+b", "match"),
        (r"(?:x|xx)*y", "fullmatch"),
        (r"\s+$", "search"),
    ],
)
def test_a_slow_expression_is_caught(pattern: str, method: str) -> None:
    assert slow_inputs(Expression(re.compile(pattern, re.MULTILINE), "planted", {method}))


@pytest.mark.parametrize("pattern", [r"(\S+)\s+(\S+)", r"^==> (.*) <==$", r"[^:]*+:\s*+(.*)"])
def test_a_linear_expression_is_not(pattern: str) -> None:
    assert not slow_inputs(Expression(re.compile(pattern), "planted", {"match"}))


@cache
def readers() -> dict[str, tuple[Callable[[str], object], list[str]]]:
    """Return everything that reads foreign text, with texts that it understands."""
    readers_by_name: dict[str, tuple[Callable[[str], object], list[str]]] = {}
    for name, probe in all_probes().items():
        readers_by_name[f"probe {name}"] = (probe.parse, texts(CASES / "probes" / name))
    for name, tool in all_tools().items():

        def parse(text: str, tool_parse: Callable[[str], object] = tool.parse) -> object:
            return tool_parse(unwrap(text).output)

        readers_by_name[f"tool {name}"] = (parse, texts(CASES / "tools" / name))
    readers_by_name["scrub"] = (lambda text: scrub(text.encode()), SECRETS)
    event = '{"kind":"event","name":"reading","data":{"names":["a","b"]}}'
    readers_by_name["record"] = (lambda text: read_record(text.encode()), [event])
    readers_by_name["message"] = (lambda text: decode(text.encode()), ['{"kind":"hello","pid":1}'])
    return readers_by_name


SECRETS = [
    "password=x ",
    'password="a',
    "token abc123 ",
    "://a:b@",
    '{"password": "x"}\n',
    "==> a <==\n",
    "\\\"token='",
]


def texts(folder: Path) -> list[str]:
    return [path.read_bytes().decode("utf-8", "replace") for path in sorted(folder.glob("*.txt"))]


def pieces(real: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (before, piece to repeat, after): lines of real texts alone and in their place, words, and brackets."""
    lines = list(dict.fromkeys(line for text in real for line in text.split("\n")))
    step = max(1, len(lines) // 6)
    for line in lines[::step]:
        yield "", f"{line}\n", ""
        words = line.split(" ")
        yield line, words[-1] or " ", ""
        yield f"{words[0]} ", " ", "\x01"
    for text in real[:3]:
        first, _, rest = text.partition("\n")
        second = rest.partition("\n")[0]
        yield f"{first}\n", f"{second}\n", rest
    for bracket in ("[", '{"a":', '"', "\\", ",", "\t", "0", "==> a <==\n"):
        yield "", bracket, ""


@pytest.mark.parametrize("name", sorted(readers()))
def test_every_reader_is_linear(name: str) -> None:
    read, real = readers()[name]

    def survive(text: str) -> None:
        with contextlib.suppress(RailbedError, ValueError):
            read(text)

    for before, piece, after in pieces(real):

        def make(count: int, parts: tuple[str, str, str] = (before, piece, after)) -> str:
            # A piece may be a long line: what counts is how often it comes.
            return parts[0] + parts[1] * max(1, count // 2) + parts[2]

        assert not superlinear(survive, make, MUCH_SECONDS), (before[:80], piece[:80], after[:40])


@pytest.mark.parametrize(
    "piece",
    ["  n{}: {{host: 10.0.0.1, ports: [{{netdev: e, rail: r, address: 10.1.0.1}}]}}\n", "  n{}:\n", "  - [{}]\n"],
)
def test_the_cluster_file_is_read_in_linear_time(piece: str) -> None:
    def read(text: str) -> None:
        with contextlib.suppress(RailbedError):
            loads(text, name="cluster.yaml")

    def make(count: int) -> str:
        return "name: x\nnodes:\n" + "".join(piece.format(number) for number in range(count // 10))

    assert not superlinear(read, make, MUCH_SECONDS)
