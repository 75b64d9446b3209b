"""What sets the processors and GPUs of the machine at boot: services, their configuration, the kernel's defaults.

A service counts if it is enabled. Of a configuration only the governor is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

READ_SERVICES = ("tuned", "cpupower", "cpufrequtils", "ondemand")
"""Services whose governor is understood."""
UNREAD_SERVICES = ("power-profiles-daemon", "tlp", "auto-cpufreq", "cpufreqd", "laptop-mode", "cpupower-service")
"""Services that may also set the governor."""
ORCHESTRATORS = ("kubelet", "k3s", "k3s-agent", "rke2-agent", "rke2-server", "nvidia-mig-manager", "bcmd")
"""Services that start containers or programs which set up GPUs."""
PERSISTENCED = "nvidia-persistenced"
TUNED_GOVERNORS = {
    **dict.fromkeys(
        (
            *("latency-performance", "network-latency", "throughput-performance", "network-throughput"),
            *("hpc-compute", "accelerator-performance", "virtual-host", "virtual-guest", "realtime"),
            *("cpu-partitioning", "mssql", "oracle", "sap-hana", "sap-netweaver", "postgresql"),
        ),
        "performance",
    ),
    **dict.fromkeys(("balanced", "desktop"), "schedutil or powersave"),
    **dict.fromkeys(("powersave", "balanced-battery", "server-powersave"), "powersave"),
}
"""The governor of tuned's own profiles."""
UNITS = " ".join(f"{unit}.service" for unit in (*READ_SERVICES, *UNREAD_SERVICES, *ORCHESTRATORS))
COMMAND = rf"""
[ -d /run/systemd/system ] || {{ echo '==> end <=='; exit 0; }}
echo '==> enabled <=='
systemctl list-unit-files --plain --no-legend --no-pager {UNITS} |
  sed -nE 's/^([^ ]+)[.]service +(enabled|enabled-runtime|generated|static|alias)( .*)?$/\1/p'
echo '==> tuned <=='; cat /etc/tuned/active_profile 2>/dev/null
profile=$(cat /etc/tuned/active_profile 2>/dev/null)
for file in "/etc/tuned/$profile/tuned.conf" "/etc/tuned/profiles/$profile/tuned.conf"; do
  if [ -n "$profile" ] && [ -e "$file" ]; then echo '==> tuned-own <=='; break; fi
done
echo '==> cpupower <=='
grep -hsE '^[[:space:]]*(CPUPOWER_START_OPTS|governor)=' /etc/default/cpupower /etc/sysconfig/cpupower
echo '==> cpufrequtils <=='; grep -hsE '^[[:space:]]*(GOVERNOR|ENABLE)=' /etc/default/cpufrequtils
echo '==> cmdline <=='; tr ' ' '\n' </proc/cmdline | grep '^cpufreq[.]default_governor='
echo '==> kernel <=='; read -r kernel </proc/sys/kernel/osrelease
for file in "/boot/config-$kernel" "/lib/modules/$kernel/config" "/lib/modules/$kernel/build/.config"; do
  if [ -r "$file" ]; then grep -E '^CONFIG_CPU_FREQ_DEFAULT_GOV_[A-Z]+=y' "$file"; break; fi
done
if command -v {PERSISTENCED} >/dev/null 2>&1; then
  echo '==> persistenced <=='; systemctl show -p UnitFileState -p ActiveState -p ExecStart {PERSISTENCED}.service
fi
echo '==> end <=='
"""
_CPUPOWER = re.compile(r"(?:-g|--governor)[ =]?+(?P<option>[a-z]{1,32})|^\s*+governor=['\"]?(?P<line>[a-z]{1,32})")
_KERNEL = re.compile(r"CONFIG_CPU_FREQ_DEFAULT_GOV_(?P<name>[A-Z]{1,32})=y")
_WORD = re.compile(r"[a-z][a-z_]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootHost(TextFacts):
    """What sets processors and GPUs at boot."""

    governors: dict[str, str | None] = field(default_factory=dict)
    """By enabled service that sets the governor, which; None if that is not known."""
    default_governor: str | None = None
    """What the kernel starts with; None if that is not known."""
    orchestrators: tuple[str, ...] = ()
    """Services that start containers or programs which set up GPUs."""
    persistenced: str | None = None
    """`on` if nvidia-persistenced turns persistence mode on at boot, else why not; None if it is not installed."""


def parse(text: str) -> BootHost:
    """Read the sections."""
    lines = Lines(text)
    parts = {name: part.text for name, part in lines.sections()}
    lines.require("end" in parts, "the output is not complete")
    enabled = parts.get("enabled", "").split()
    services = [unit for unit in (*READ_SERVICES, *UNREAD_SERVICES) if unit in enabled]
    governors = {unit: _governor(unit, parts) for unit in services}
    return BootHost(
        governors={unit: governor for unit, governor in governors.items() if governor != ""},
        default_governor=_default(parts),
        orchestrators=tuple(unit for unit in ORCHESTRATORS if unit in enabled),
        persistenced=_describe_persistenced(parts["persistenced"]) if "persistenced" in parts else None,
        not_understood=lines.not_understood,
    )


def _governor(unit: str, parts: dict[str, str]) -> str | None:
    """Return the governor that a service sets; None if that is not known, and an empty text if it sets none."""
    match unit:
        case "tuned":
            profiles = {line.strip() for line in parts.get("tuned", "").splitlines()}
            known = next((profile for profile in TUNED_GOVERNORS if profile in profiles), "")
            return None if "tuned-own" in parts else TUNED_GOVERNORS.get(known)
        case "cpupower":
            match = next(filter(None, map(_CPUPOWER.search, parts.get("cpupower", "").splitlines())), None)
            return (match["option"] or match["line"]) if match else ""
        case "cpufrequtils":
            values = dict(
                line.strip().split("=", 1) for line in parts.get("cpufrequtils", "").splitlines() if "=" in line
            )
            if _plain(values.get("ENABLE", "true")) != "true":
                return ""
            # Its start script has this one if the file has none.
            name = _plain(values.get("GOVERNOR", "ondemand"))
            return name if _WORD.fullmatch(name) else None
        case "ondemand":
            return "ondemand or powersave"
    return None


def _plain(value: str) -> str:
    return value.strip().strip("\"'")


def _default(parts: dict[str, str]) -> str | None:
    parameter = parts.get("cmdline", "").strip().partition("=")[2]
    if _WORD.fullmatch(parameter):
        return parameter
    match = _KERNEL.search(parts.get("kernel", ""))
    return match["name"].lower() if match else None


def _describe_persistenced(text: str) -> str:
    values = {key: value for key, _, value in (line.partition("=") for line in text.splitlines())}
    state = values.get("UnitFileState", "")
    if state not in ("enabled", "static", "enabled-runtime", "generated", "indirect"):
        return f"{PERSISTENCED} is {state or 'not a service'}"
    if state == "static" and values.get("ActiveState") != "active":
        return f"{PERSISTENCED} is not started"
    if "--no-persistence-mode" in values.get("ExecStart", ""):
        return f"{PERSISTENCED} starts with --no-persistence-mode"
    return "on"


PROBE = Probe(
    name="boot_host",
    title="what sets processors and GPUs at boot",
    command=COMMAND,
    parse=parse,
    facts=BootHost,
)
