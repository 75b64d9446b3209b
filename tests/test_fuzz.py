"""Parsers read foreign text: whatever they are given, they return facts or raise ParseError, and nothing else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from railbed.errors import ParseError
from railbed.probes.interpret import all_probes
from tests.support.examples import examples

CASES = Path(__file__).parent / "cases" / "probes"
NAMES = sorted(all_probes())
SETTINGS = settings(
    max_examples=examples(150), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def texts_of(probe: str) -> list[str]:
    return [path.read_bytes().decode("utf-8", "replace") for path in sorted((CASES / probe).glob("*.txt"))]


def parse_survives(probe: str, text: str) -> None:
    with contextlib.suppress(ParseError):
        to_json(all_probes()[probe].parse(text))


@pytest.mark.parametrize("probe", NAMES)
def test_any_text(probe: str) -> None:
    @SETTINGS
    @given(st.text(max_size=400))
    def survives(text: str) -> None:
        parse_survives(probe, text)

    survives()


@pytest.mark.parametrize("probe", NAMES)
def test_real_text_cut_and_bent(probe: str) -> None:
    """Cut a real output short, swap pieces of it, splice foreign characters into it."""
    real = texts_of(probe)

    @SETTINGS
    @given(st.sampled_from(real), st.data())
    def survives(text: str, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 40))
        splice = data.draw(
            st.one_of(
                st.sampled_from(
                    [
                        "",
                        "\n",
                        ":",
                        "\x00",
                        "-1",
                        "null",
                        "{}",
                        "[]",
                        "9" * 400,
                        "\ufffd",
                        "²",
                        "1e999",
                        "NaN",
                        "\t",
                        "\r",
                    ]
                ),
                st.text(max_size=20),
                st.sampled_from(real).map(lambda other: other[:60]),
            )
        )
        parse_survives(probe, text[:at] + splice + text[at + length :])

    survives()
