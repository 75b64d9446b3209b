"""Readers of what ESXi hosts print, each with the output of an emulated host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from railbed.errors import ParseError, UsageError
from railbed.parsing.esxi import cards, functions, host, modules, pauses
from tests.switchlab.esxi.support import SITE, run
from tests.switchlab.esxi.support import host as emulated_host

COMMANDS: tuple[tuple[Callable[[str], object], str], ...] = (
    (cards.parse_cards, "esxcli network nic list"),
    (cards.parse_cards, "esxcfg-nics -l"),
    (cards.parse_details, "esxcli network nic get -n vmnic3"),
    (cards.parse_statistics, "esxcli network nic stats get -n vmnic3"),
    (pauses.parse_pauses, "esxcli network nic pauseParams list"),
    (pauses.parse_dcb, "esxcli network nic dcb status get -n vmnic3"),
    (pauses.parse_counters, "vsish -e cat /net/pNics/vmnic3/stats"),
    (pauses.parse_counters, "vsish -pe get /net/pNics/vmnic3/stats"),
    (functions.parse_functions, "esxcli network sriovnic vf list -n vmnic3"),
    (functions.parse_vms, "esxcli vm process list"),
    (functions.parse_devices, "lspci -p"),
    (functions.parse_devices, "lspci -n"),
    (host.parse_switches, "esxcli network vswitch standard list"),
    (host.parse_switches, "esxcfg-vswitch -l"),
    (host.parse_version, "esxcli system version get"),
    (modules.parse_modules, "esxcfg-module -g nmlx5_core"),
)


def esxi_readers() -> Iterator[tuple[str, Callable[[str], object], list[str], int]]:
    """Yield a reader for each command, and one that merges into the options of a module."""
    machine = emulated_host(SITE)
    for parse, command in COMMANDS:
        yield f"ESXi: {command}", partial(_read, parse), [run(machine, command)], 2
    yield "ESXi: options to merge into", _merge, ["pfctx=0x08 pfcrx=0x08 trust_state=2 max_vfs=4,4"], 4


def _read(parse: Callable[[str], object], text: str) -> None:
    with suppress(ParseError):
        parse(text)


def _merge(text: str) -> None:
    with suppress(UsageError):
        modules.merge_options(text, {"pfctx": "0x08", "max_vfs": "4,4"})
