"""Its README lists every release, option, request and command."""

from __future__ import annotations

import json
import re
from pathlib import Path

from switchlab import esxi
from switchlab.esxi.__main__ import parse_arguments
from switchlab.esxi.commands.esxcli import COMMANDS
from switchlab.esxi.model.description import read_description
from switchlab.esxi.model.host import Host
from switchlab.esxi.model.release import RELEASES
from switchlab.esxi.servers.control import HostControl
from switchlab.esxi.shell.filters import FILTERS
from switchlab.esxi.shell.programs import PROGRAMS

PAGE = (Path(esxi.__file__).parent / "README.md").read_text()


def test_every_release_is_described() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (\d\.\d\.\d) \|", PAGE, re.MULTILINE)
    assert dict(rows) == {name: release.version for name, release in RELEASES.items()}


def test_every_option_is_described() -> None:
    options = {f"--{name.replace('_', '-')}" for name in vars(parse_arguments([]))}
    assert options - set(re.findall(r"`(--[a-z-]+)", PAGE)) == set()


def test_every_control_request_is_described() -> None:
    described = set(re.findall(r'^\| `\{"do": "(\w+)"', PAGE, re.MULTILINE))
    assert described == set(HostControl(Host(RELEASES["7.0"]))._actions)


def test_every_command_is_described() -> None:
    described: set[str] = set()
    for namespace, commands in re.findall(r"^\| `?([\w ]+?)`? \| ((?:`[\w ]+`[,; |]*)+)", PAGE, re.MULTILINE):
        prefix = "" if namespace == "others" else f"{namespace} "
        described |= {f"{prefix}{command}" for command in re.findall(r"`([\w ]+)`", commands)}
    assert set(COMMANDS) <= described
    words = set(re.findall(r"`([\w.-]+)", PAGE))
    assert {*PROGRAMS, *FILTERS} - {"egrep"} <= words


def test_the_examples_run() -> None:
    (description,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert read_description(description).nics[0].peer.pfc == 8
    assert json.loads(description)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)  # noqa: S102 - our own page
    assert getattr(names["pfc"], "configuration", "") == "0 0 0 1 0 0 0 0"
