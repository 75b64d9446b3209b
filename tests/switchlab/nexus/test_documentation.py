"""Its README lists every platform, option and request."""

from __future__ import annotations

import re
from pathlib import Path

from switchlab import nexus
from switchlab.nexus.__main__ import parse_arguments
from switchlab.nexus.model.platform import PLATFORMS
from switchlab.nexus.model.switch import Switch
from switchlab.nexus.servers.control import ControlService

PAGE = (Path(nexus.__file__).parent / "README.md").read_text()


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
