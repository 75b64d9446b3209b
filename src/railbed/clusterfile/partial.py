"""The valid parts of a file whose other parts may have mistakes."""

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
class Located(Generic[P]):
    """A part, the node or switch it belongs to, and its path in the file."""

    owner: str
    path: KeyPath
    part: P


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFile:
    """The readable parts of a file that may have mistakes."""

    nodes: dict[str, Values]
    """Nodes as they are written, valid or not."""
    rail_names: list[str]
    """Names of the rails, valid or not."""
    switch_names: list[str]
    rails: dict[str, Rail]
    ports: list[Located[Port]]
    switch_ports: list[Located[SwitchPort]]
    login: Login

    def login_of(self, node: Values) -> Login:
        """Return the login of a node over the cluster's; an invalid one counts as absent."""
        return (validated_part(Login, mapping(node.get("login"))) or Login()).over(self.login)

    def invalid_nodes(self) -> set[str]:
        """Return the nodes with an invalid port: which ports they have is not fully known."""
        readable = {located.path for located in self.ports}
        return {name for name, node in self.nodes.items() if not _all_readable(name, node.get("ports"), readable)}


def read_valid_parts(values: Values) -> PartialFile:
    """Read the parts that are valid."""
    rails = {name: validated_part(Rail, mapping(part)) for name, part in mapping(values.get("rails")).items()}
    nodes = {name: mapping(part) for name, part in mapping(values.get("nodes")).items()}
    switches = {name: mapping(part) for name, part in mapping(values.get("switches")).items()}
    return PartialFile(
        nodes=nodes,
        rail_names=list(rails),
        switch_names=list(switches),
        rails={name: rail for name, rail in rails.items() if rail is not None},
        ports=list(_listed("nodes", nodes, Port)),
        switch_ports=list(_listed("switches", switches, SwitchPort)),
        login=validated_part(Login, mapping(values.get("login"))) or Login(),
    )


def validated_part(kind: type[P], values: Values) -> P | None:
    """Return the part, ignoring unknown keys; None if it is invalid."""
    try:
        return kind.model_validate({key: value for key, value in values.items() if key in kind.model_fields})
    except ValidationError:
        return None


def mapping(value: object) -> Values:
    """Return the value if it is a map, otherwise an empty map."""
    return value if isinstance(value, dict) else {}


def _listed(section: str, owners: dict[str, Values], kind: type[P]) -> Iterator[Located[P]]:
    for name, owner in owners.items():
        listed = owner.get("ports")
        for index, item in enumerate(listed if isinstance(listed, list) else []):
            part = validated_part(kind, mapping(item))
            if part is not None:
                yield Located(name, (section, name, "ports", index), part)


def _all_readable(name: str, ports: object, readable: set[KeyPath]) -> bool:
    if not isinstance(ports, list):
        return ports is None
    return all(("nodes", name, "ports", index) in readable for index in range(len(ports)))
