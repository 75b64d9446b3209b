#!/usr/bin/env python3
"""Stand-in for OFED's mlnx_qos: the options that railbed uses, the checks of the driver, the output of the tool."""

# ruff: noqa: T201  (what it prints is what railbed reads)
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

STATE = Path("/run/card/mlnx_qos.json")
FACTORY: dict[str, Any] = {
    "trust": "pcp",
    "dscp2prio": {str(dscp): dscp // 8 for dscp in range(64)},
    "pfc": [0] * 8,
    "manual_buffers": False,
    "prio2buffer": [0] * 8,
    "buffer_size": [262016, *[0] * 7],
    "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7],
    "tsa": ["vendor"] * 8,
    "tcbw": [0] * 8,
}


def main() -> int:
    """Set what the options say, and print all settings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", "--interface", required=True)
    parser.add_argument("--trust", choices=("dscp", "pcp"))
    for name in ("dscp2prio", "pfc", "prio2buffer", "buffer_size", "prio_tc", "tsa", "tcbw"):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","))
    options = parser.parse_args()
    if options.interface != "rail0":
        print("Priority trust state is not supported on your system")
        return 0
    state = json.loads(STATE.read_text()) if STATE.exists() else FACTORY
    apply(state, options)
    if state["tsa"].count("ets") and sum(state["tcbw"]) != 100:
        print("Netlink error: Bad value. see dmesg.")
        return 1
    if any(share for share, algorithm in zip(state["tcbw"], state["tsa"], strict=True) if algorithm != "ets"):
        print("ETS algorithm is not set, but bandwidth is")
        return 1
    STATE.write_text(json.dumps(state))
    show(state)
    return 0


def apply(state: dict[str, Any], options: argparse.Namespace) -> None:
    state["trust"] = options.trust or state["trust"]
    for name in ("pfc", "prio2buffer", "buffer_size", "prio_tc", "tcbw"):
        if (row := getattr(options, name)) is not None:
            state[name] = [int(value) for value in row]
    state["tsa"] = options.tsa or state["tsa"]
    if options.dscp2prio:
        action, dscp, priority = options.dscp2prio
        state["dscp2prio"][dscp] = int(priority) if action == "set" else 0
    if options.prio2buffer or options.buffer_size:
        state["manual_buffers"] = True
    if options.pfc and not state["manual_buffers"]:
        # The firmware gives lossless priorities a buffer.
        state["prio2buffer"] = list(state["pfc"])
        state["buffer_size"] = [131072, 130944, *[0] * 6] if any(state["pfc"]) else FACTORY["buffer_size"]


def show(state: dict[str, Any]) -> None:
    print("DCBX mode: OS controlled")
    print(f"Priority trust state: {state['trust']}")
    if state["trust"] == "dscp":
        print("dscp2prio mapping:")
        for priority in range(8):
            numbers = [int(dscp) for dscp, mapped in state["dscp2prio"].items() if mapped == priority]
            for start in range(0, len(numbers), 8):
                row = sorted(numbers, reverse=True)[start : start + 8]
                print(f"\tprio:{priority} dscp:{''.join(f'{dscp:02},' for dscp in row)}")
    print(f"Receive buffer size (bytes): {','.join(map(str, state['buffer_size']))},max_buffer_size=262016")
    print("Cable len: 7")
    print("PFC configuration:")
    for name, row in (("priority", list(range(8))), ("enabled", state["pfc"]), ("buffer", state["prio2buffer"])):
        print(f"\t{name:<9}{''.join(f'{value:>4}' for value in row)}   ")
    for tc in sorted(set(state["prio_tc"])):
        share = f", bw: {state['tcbw'][tc]}%" if state["tsa"][tc] == "ets" else ""
        print(f"tc: {tc} ratelimit: unlimited, tsa: {state['tsa'][tc]}{share}")
        for priority in range(8):
            if state["prio_tc"][priority] == tc:
                print(f"\t priority:  {priority}")


sys.exit(main())
