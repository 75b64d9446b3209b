"""The parts of a file that are sound by themselves, while others may still be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import ValidationError

from railbed.model.cluster import Login, Part, Port, Rail, SwitchPort
from railbed.yamlfile.mistakes import KeyPath

P = TypeVar("P", bound=Part)
Values = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Placed(Generic[P]):
    """A part, the node or switch it belongs to, and where it stands."""

    owner: str
    path: KeyPath
    part: P


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What can be read of a file with mistakes in it."""

    nodes: dict[str, Values]
    """Nodes as they stand, sound or not."""
    rail_names: list[str]
    """Names of the rails, sound or not."""
    switch_names: list[str]
    rails: dict[str, Rail]
    ports: list[Placed[Port]]
    switch_ports: list[Placed[SwitchPort]]
    login: Login

    def login_of(self, node: Values) -> Login:
        """Return the login of a node over the cluster's; what is not sound counts as not given."""
        return (sound(Login, mapping(node.get("login"))) or Login()).over(self.login)

    def unsound_nodes(self) -> set[str]:
        """Return the nodes with a port that cannot be read: nothing can be said about what they lack."""
        readable = {placed.path for placed in self.ports}
        return {name for name, node in self.nodes.items() if not _all_readable(name, node.get("ports"), readable)}


def draft(values: Values) -> Draft:
    """Read what is sound."""
    rails = {name: sound(Rail, mapping(part)) for name, part in mapping(values.get("rails")).items()}
    nodes = {name: mapping(part) for name, part in mapping(values.get("nodes")).items()}
    switches = {name: mapping(part) for name, part in mapping(values.get("switches")).items()}
    return Draft(
        nodes=nodes,
        rail_names=list(rails),
        switch_names=list(switches),
        rails={name: rail for name, rail in rails.items() if rail is not None},
        ports=list(_listed("nodes", nodes, Port)),
        switch_ports=list(_listed("switches", switches, SwitchPort)),
        login=sound(Login, mapping(values.get("login"))) or Login(),
    )


def sound(kind: type[P], values: Values) -> P | None:
    """Return the part, without the keys it does not know, or None."""
    try:
        return kind.model_validate({key: value for key, value in values.items() if key in kind.model_fields})
    except ValidationError:
        return None


def mapping(value: object) -> Values:
    """Return the value where it is a map, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def _listed(section: str, owners: dict[str, Values], kind: type[P]) -> Iterator[Placed[P]]:
    for name, owner in owners.items():
        listed = owner.get("ports")
        for index, item in enumerate(listed if isinstance(listed, list) else []):
            part = sound(kind, mapping(item))
            if part is not None:
                yield Placed(name, (section, name, "ports", index), part)


def _all_readable(name: str, ports: object, readable: set[KeyPath]) -> bool:
    if not isinstance(ports, list):
        return ports is None
    return all(("nodes", name, "ports", index) in readable for index in range(len(ports)))
