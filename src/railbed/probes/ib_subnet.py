"""The InfiniBand subnet from a node: partition keys of its ports, and the subnet managers (sysfs, sminfo, saquery)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

PKEY = re.compile(r"(?:.*/)?([^/:\s]+)/ports/(\d{1,3})/pkeys/\d{1,5}:\s*(0x[0-9a-fA-F]{4})\s*", re.ASCII)
SMINFO = re.compile(
    r".*sminfo: sm lid (\d{1,5}) sm guid (0x[0-9a-f]{1,16}), activity count \d{1,12} priority (\d{1,2}) state (\d).*",
    re.ASCII,
)
FIELD = re.compile(r"(LID|GUID|Priority|SMState)\.{2,}\s*(0x[0-9a-fA-F]{1,16}|\d{1,10})\b.*", re.ASCII)
RECORD = "SMInfoRecord dump"
NOT_NEEDED = re.compile(r"RID|SMInfo dump:|\w++\.{2,}+.*|timeout: failed to run command .*", re.ASCII)
"""Other fields of records, and a tool that is not installed."""
FULL_MEMBER = 0x8000
MASTER, STANDBY = 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetManager:
    """One subnet manager."""

    guid: str
    lid: int | None = None
    priority: int | None = None
    state: int | None = None
    """1 discovering, 2 standby, 3 master."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IbSubnet(TextFacts):
    """What the InfiniBand ports of a node are part of; empty without such a port."""

    pkeys: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Partition keys by `device/port`, in order, without empty entries."""
    masters: dict[str, SubnetManager] = field(default_factory=dict)
    """The manager that answers each port, by `device/port`; saved alone, under the empty name."""
    managers: tuple[SubnetManager, ...] = ()
    """All managers that the subnet administration lists."""


def parse(text: str) -> IbSubnet:
    """Read the sections of our command, or the output of sminfo or saquery alone."""
    lines = Lines(text)
    parts = list(lines.sections())
    pkeys: dict[str, list[int]] = {}
    masters: dict[str, SubnetManager] = {}
    managers: list[SubnetManager] = []
    for name, part in parts:
        records: list[dict[str, str]] = []
        for line in map(str.strip, part):
            if match := PKEY.fullmatch(line):
                pkeys.setdefault(f"{match[1]}/{integer(match[2])}", []).append(integer(match[3], base=16))
            elif match := SMINFO.fullmatch(line):
                masters[name] = SubnetManager(
                    guid=match[2], lid=integer(match[1]), priority=integer(match[3]), state=integer(match[4])
                )
            elif not _add_to_records(records, line):
                part.unknown(line)
        managers += (_manager(record) for record in records if "GUID" in record)
    is_ours = any(name for name, _ in parts)
    lines.require(pkeys or masters or managers or is_ours or not text.strip(), "no partition key or subnet manager")
    return IbSubnet(
        pkeys={port: tuple(key for key in keys if key) for port, keys in pkeys.items()},
        masters=masters,
        managers=tuple(managers),
        not_understood=lines.not_understood,
    )


def _add_to_records(records: list[dict[str, str]], line: str) -> bool:
    """Add a line of saquery; a field that a record has already belongs to the next one."""
    match = FIELD.fullmatch(line)
    if line.startswith(RECORD):
        records.append({})
    elif match and records:
        if match[1] in records[-1]:
            records.append({})
        records[-1][match[1]] = match[2]
    else:
        return NOT_NEEDED.fullmatch(line) is not None
    return True


def _manager(record: dict[str, str]) -> SubnetManager:
    return SubnetManager(
        guid=hex(integer(record["GUID"], base=16)) if record["GUID"].startswith("0x") else record["GUID"],
        lid=integer(record["LID"]) if record.get("LID", "").isdigit() else None,
        priority=integer(record["Priority"]) if record.get("Priority", "").isdigit() else None,
        state=integer(record["SMState"]) if record.get("SMState", "").isdigit() else None,
    )


COMMAND = """
cd /sys/class/infiniband 2>/dev/null || exit 0
grep -qs InfiniBand */ports/*/link_layer || exit 0
listed=
for path in */ports/*; do
  read -r layer 2>/dev/null <"$path/link_layer" || continue
  [ "$layer" = InfiniBand ] || continue
  device=${path%%/*}
  port=${path##*/}
  echo "==> $device/$port <=="
  grep -sH '' "$path"/pkeys/* | grep -v 0x0000
  read -r state 2>/dev/null <"$path/state" || continue
  case $state in *ACTIVE*) ;; *) continue ;; esac
  timeout 5 sminfo -C "$device" -P "$port" 2>&1
  [ "$listed" ] || timeout 5 saquery -C "$device" -P "$port" SMIR 2>&1
  listed=1
done
exit 0
"""

PROBE = Probe(
    name="ib_subnet",
    title="partition keys and subnet managers of InfiniBand",
    command=COMMAND,
    parse=parse,
    facts=IbSubnet,
    needs_root=True,
    timeout=20.0,
)
