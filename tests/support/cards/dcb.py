#!/usr/bin/env python3
"""Stand-in for `dcb` of iproute2 6.1 on an inbox driver: also exits with 0 if the kernel refuses `ets` and `buffer`.

The names of objects in /run/card/refuse are refused.
"""

# ruff: noqa: T201  (what it prints is what railbed reads)
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

STATE, REFUSE = Path("/run/card/dcb.json"), Path("/run/card/refuse")
FACTORY: dict[str, Any] = {
    "pfc": {"prio_pfc": [False, False, False, True, False, False, False, False]},
    "app": {},
    "ets": {
        "tc_bw": [100] * 8,
        "tc_tsa": ["vendor"] * 8,
        "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7],
    },
    "buffer": {"prio_buffer": [0] * 8, "buffer_size": [262016, *[0] * 7], "total_size": 262016},
}


def main() -> int:
    """Run `dcb [-j] [-N] OBJECT COMMAND dev DEV [KEY [INDEX:VALUE …]] …`."""
    arguments = sys.argv[1:]
    flags = {argument for argument in arguments if argument.startswith("-")}
    subject, action, _, netdev, *words = [argument for argument in arguments if argument not in flags]
    if netdev != "rail0":
        print("Attribute read: Operation not supported", file=sys.stderr)
        return 1
    state = json.loads(STATE.read_text()) if STATE.exists() else FACTORY
    if action == "show":
        if "-j" in flags:
            print(json.dumps(shown(subject, state)))
        else:
            print_as_text(subject, state[subject], words)
        return 0
    if REFUSE.exists() and subject in REFUSE.read_text().split():
        return 0
    change(state, subject, action, words)
    # Like mlx5: classes without a share report all of the bandwidth.
    ets = state["ets"]
    ets["tc_bw"] = [share if tsa == "ets" else 100 for share, tsa in zip(ets["tc_bw"], ets["tc_tsa"], strict=True)]
    STATE.write_text(json.dumps(state))
    return 0


def shown(subject: str, state: dict[str, Any]) -> dict[str, Any]:
    if subject != "app":
        return dict(state[subject])
    return {"dscp_prio": [[int(dscp), priority] for dscp, priority in state["app"].items()]} if state["app"] else {}


def change(state: dict[str, Any], subject: str, action: str, words: list[str]) -> None:
    key = ""
    for word in words:
        if ":" not in word:
            key = word.replace("-", "_")
        elif subject == "app":
            dscp, priority = word.split(":")
            state["app"].pop(dscp, None)
            if action != "del":
                state["app"][dscp] = int(priority)
        else:
            index, value = word.split(":")
            for number in range(8) if index == "all" else (int(index),):
                state[subject][key][number] = meaning(value)


def meaning(value: str) -> bool | int | str:
    if value in ("on", "off"):
        return value == "on"
    return int(value) if value.isdigit() else value


def print_as_text(subject: str, values: dict[str, Any], keys: list[str]) -> None:
    for key in keys:
        if subject == "app":
            row = [f"{dscp}:{priority}" for dscp, priority in values.items()]
        else:
            unit = "b" if key == "buffer-size" else ""
            row = [f"{index}:{value}{unit}" for index, value in enumerate(values[key.replace("-", "_")])]
        print(key, *row, "")


sys.exit(main())
