"""docs/emulated-nexus.md lists every platform, option and request."""

from __future__ import annotations

import re
from pathlib import Path

from railbed.lab.nexus.__main__ import parse_arguments
from railbed.lab.nexus.model.platform import PLATFORMS
from railbed.lab.nexus.model.switch import Switch
from railbed.lab.nexus.servers.control import ControlService

PAGE = (Path(__file__).parent.parent.parent / "docs" / "emulated-nexus.md").read_text()


def test_every_platform_is_described() -> None:
    assert set(re.findall(r"^\| `([\w.-]+)` \| [\w-]+, ", PAGE, re.MULTILINE)) == set(PLATFORMS)


def test_every_option_is_described() -> None:
    options = {f"--{name.replace('_', '-')}" for name in vars(parse_arguments([]))}
    assert options - set(re.findall(r"`(--[a-z-]+)", PAGE)) == set()


def test_every_control_request_is_described() -> None:
    described = set(re.findall(r'^\| `\{"do": "(\w+)"', PAGE, re.MULTILINE))
    assert described == set(ControlService(Switch(PLATFORMS["n9k"]))._actions)


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)  # noqa: S102 - our own page
    assert "outcome" in names
