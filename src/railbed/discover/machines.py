"""The machines to read, from what a person names: `[user@]host[:port]`, a login for them, switches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from railbed.discover.machine import free_name
from railbed.discover.observation import Location, location_of
from railbed.errors import UsageError
from railbed.model.cluster import Cluster, Host, Login, Node
from railbed.model.cluster import Text as OneLine
from railbed.model.text import expand_home, is_file

HOST = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>\d{1,5}))?")


def named_login(user: str | None, key: str | None, jump: str | None, *, new_key: bool = False) -> Login:
    """Return the login that is named, with an absolute path of the key, which may have to be created."""
    named = {"--user": user, "--key": _whole_path(key) if key else None, "--jump": jump}
    for option, value in named.items():
        if value is not None and not _is_text(value):
            raise UsageError(f"{option} {value!r} cannot be used", hint=f"{option} takes one line of text")
    if jump and not HOST.fullmatch(jump):
        raise UsageError(f"--jump {jump!r} is not a jump host", hint="write it as [user@]host[:port]")
    if key and not is_file(expand_home(key)) and not new_key:
        raise UsageError(f"--key {key}: there is no such file", hint="name a private key file")
    return Login(user=user, key=named["--key"], jump=jump)


def bare_cluster(hosts: Sequence[str], existing: Cluster | None, login: Login) -> Cluster:
    """Return the machines that are named, with missing login settings from the file.

    In a new file the login applies to all machines; in an existing file, to the new machines.
    """
    common = existing.login if existing else login
    own = _beyond(login, common)
    nodes: dict[str, Node] = {}
    addresses: dict[Location, str] = {}
    for text in hosts:
        bare = _bare_node(text)
        node = bare.model_copy(update={"login": bare.login.over(own)})
        location = location_of(node.host, node.login.over(common))
        if location in addresses:
            raise UsageError(f"{text} is given twice, first as {addresses[location]}", hint="leave one of them out")
        addresses[location] = text
        nodes[free_name(text, nodes)] = node
    return Cluster(name="machines", nodes=nodes, login=common)


def with_switches(machines: Cluster, existing: Cluster | None, named: Sequence[str]) -> Cluster:
    """Return the machines with those switches of the file that are named: only the file has a login for them."""
    filed = {**machines.switches, **(existing.switches if existing else {})}
    chosen = {name: switch for name, switch in filed.items() if name in named or switch.host in named}
    return machines.model_copy(update={"switches": chosen})


def switch_host(text: str) -> str:
    """Return the host of a switch that is named; raise UsageError if it cannot be one."""
    try:
        return TypeAdapter[str](Host).validate_python(text)
    except ValidationError:
        raise UsageError(f"--switch {text!r} is not a host", hint="use its address or host name") from None


def _whole_path(path: str) -> str:
    """Return an absolute path, or a path from `~`, since other users have other home folders."""
    absolute = expand_home(path).absolute()
    home = Path("~").expanduser()
    return f"~/{absolute.relative_to(home)}" if absolute.is_relative_to(home) and absolute != home else str(absolute)


def _is_text(value: str) -> bool:
    try:
        TypeAdapter[str](OneLine).validate_python(value)
    except ValidationError:
        return False
    return True


def _beyond(login: Login, common: Login) -> Login:
    """Return the settings of a login that differ from the common one."""
    settings = login.model_dump(exclude_none=True)
    return Login(**{name: value for name, value in settings.items() if value != getattr(common, name)})


def _bare_node(text: str) -> Node:
    match = HOST.fullmatch(text)
    try:
        if match:
            login = Login(user=match["user"], port=int(match["port"]) if match["port"] else None)
            return Node(host=match["host"].strip("[]"), login=login)
    except ValidationError:
        pass
    raise UsageError(f"{text!r} is not a machine", hint="write it as [user@]host[:port]")
