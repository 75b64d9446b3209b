"""Releases of ESXi, and what their output differs in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    version: str
    build: int
    update: int
    patch: int
    has_dcb: bool = True
    """Takes PFC from the switch by DCBX, and has `esxcli network nic dcb`."""
    has_json: bool = True
    has_passthrough_list: bool = True
    has_dpu: bool = False
    """`esxcli network nic get` has the field `Backing DPUId`."""
    hexadecimal_vfs: bool = False
    """Addresses of virtual functions are hexadecimal; before, decimal with leading zeros."""
    owner_is_cartel: bool = False
    """The owner of a virtual function is the VMX Cartel ID, in a column that is still called World ID."""


RELEASES = {
    "6.7": Release(
        version="6.7.0",
        build=14320388,
        update=3,
        patch=73,
        has_dcb=False,
        has_json=False,
        has_passthrough_list=False,
    ),
    "7.0": Release(version="7.0.2", build=17867351, update=2, patch=0),
    "8.0": Release(version="8.0.0", build=20513097, update=0, patch=0, has_dpu=True),
    "8.0U3": Release(version="8.0.3", build=24022510, update=3, patch=35, has_dpu=True, hexadecimal_vfs=True),
    "9.0": Release(
        version="9.0.0",
        build=24755229,
        update=0,
        patch=0,
        has_dpu=True,
        hexadecimal_vfs=True,
        owner_is_cartel=True,
    ),
}
