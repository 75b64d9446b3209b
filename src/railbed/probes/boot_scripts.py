"""What else acts at boot: other people's units and the scripts that they start, hooks, udev rules, cron.

Only the names of files that mention a tool or a setting are printed, never what is in them. What such a file does is
not understood: the setting is neither stored nor missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.text import sections

PATTERNS = {
    "mtu": "mtu",
    "address": "(^|[^a-z])ip( -[a-z0-9]+)* +a(ddr(ess)?)? |ifconfig|nmcli|dhclient|dhcpcd",
    "qos": "mlnx_qos|lldptool|lldpad|pfctx|pfcrx|(^|[^a-z])dcb ",
    "tos": "roce_tos|traffic_class",
    "pause": "ethtool.*( -A|--pause)|pause|flow.?control",
    "offloads": "ethtool.*( -K|--offload|--features)|offload|ethtool_opts",
    "dcqcn": "roce_np|roce_rp|cnp_dscp|cc_params|mlxconfig|mstconfig|mlxreg|bfb",
    "governor": "governor|cpufreq|cpupower|tuned-adm|energy_perf",
    "gpu": "nvidia-smi|nvidia-persistenced|dcgmi",
    "modules": "rdma.ucm|ib.uverbs|nvidia.peermem|nv.peer.mem|_ib($|[^a-z])|rdma_rxe|siw|bnxt_re|irdma|openibd",
    "link": "(^|[^a-z])ip( -[a-z0-9]+)* +l(ink)? |ifconfig|ifup|nmcli|networkctl",
    "any": "ansible-pull|puppet +agent|chef-client|salt-call|cfengine",
}
"""By setting, what a file mentions that may set it; `any` sets what a server decides."""
FROM_SERVICES = ("mtu", "address")
"""Settings that other probes understand in the configuration of network services."""
MAX_FILES = 300
UNDERSTOOD = (
    *("cpupower", "cpufrequtils", "ondemand", "loadcpufreq", "tuned", "nvidia-persistenced", "openibd"),
    *("systemd-networkd", "systemd-networkd-wait-online", "networkd-dispatcher", "networking"),
    *("NetworkManager", "NetworkManager-dispatcher", "NetworkManager-wait-online"),
)
"""Services that other probes read."""
MATCHES = "\n".join(
    f"{'!more && ' if name in FROM_SERVICES else ''}line ~ /{pattern.lower()}/ {{ note({number}) }}"
    for number, (name, pattern) in enumerate(PATTERNS.items())
)
TITLES = "; ".join(f'printf "==> {name} <==\\n%s", files[{number}]' for number, name in enumerate(PATTERNS))
COMMAND = rf"""
[ -d /run/systemd/system ] || {{ echo '==> end <=='; exit 0; }}
units=$(find /etc/systemd/system /usr/local/lib/systemd/system -type f \
  \( -name '*.service' -o -name '*.conf' \) ! -name railbed.service -size -64k 2>/dev/null | head -n {MAX_FILES})
hooks=$(find -L /etc/rc.local /etc/rc.d/rc.local /etc/udev/rules.d /etc/systemd/network \
  /etc/network/if-pre-up.d /etc/network/if-up.d /etc/NetworkManager/dispatcher.d /etc/networkd-dispatcher \
  /etc/crontab /etc/cron.d /var/spool/cron /var/lib/cloud/instance/user-data.txt /etc/modprobe.d /etc/tuned \
  /etc/infiniband \
  -type f ! -path '/etc/network/*/ethtool' ! -path '/etc/systemd/network/*.network' \
  ! -path '/etc/systemd/network/*.conf' -size -512k 2>/dev/null | head -n {MAX_FILES})
files=$(printf '%s\n%s\n' "$units" "$hooks" | grep .)
more=$(find -L /etc/network/interfaces /etc/network/interfaces.d /etc/sysconfig/network-scripts /etc/init.d \
  $(ls -d /etc/systemd/system/*.wants 2>/dev/null) -type f ! -name railbed ! -name railbed.service \
  -size -64k 2>/dev/null | grep -vE '/({"|".join(UNDERSTOOD)})([.]service)?$' | head -n {MAX_FILES})
scripts_of() {{
  printf '%s\n' "$1" | tr '\n' '\0' | xargs -0 -r grep -shE '^Exec|@reboot|RUN|up ' |
    grep -oE '/[A-Za-z0-9_./@+-]+' | sort -u | head -n {MAX_FILES} | while read -r file; do
    [ -f "$file" ] && read -r first <"$file" && case "$first" in '#!'*) echo "$file";; esac
  done
}}
started=$(scripts_of "$files")
scripts=$(scripts_of "$more")
{{ printf '%s\n%s\n' "$files" "$started" | grep .; echo more=1; printf '%s\n%s\n' "$more" "$scripts" | grep .
  echo /dev/null; }} | tr '\n' '\0' | LC_ALL=C xargs -0 awk '
function note(number) {{
  if (!((number, FILENAME) in seen)) {{ seen[number, FILENAME]; files[number] = files[number] FILENAME "\n" }}
}}
/^[ \t]*[#;]/ {{ next }}
{{ line = tolower($0) }}
{MATCHES}
END {{ {TITLES} }}' 2>/dev/null
echo '==> end <=='
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootScripts:
    """Files that may change settings at boot."""

    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By setting; one that is missing was not looked for."""

    def of(self, setting: str) -> tuple[str, ...] | None:
        """Return the files that may change a setting; None if that is not known."""
        own = self.files.get(setting)
        return None if own is None else (*own, *self.files.get("any", ()))


def parse(text: str) -> BootScripts:
    """Read the sections."""
    parts = dict(sections(text))
    if "end" not in parts:
        raise ParseError("the output is not complete", line=text.strip().partition("\n")[0])
    return BootScripts(
        files={name: tuple(sorted(set(body.splitlines()))) for name, body in parts.items() if name in PATTERNS}
    )


PROBE = Probe(
    name="boot_scripts",
    title="files that may change settings at boot",
    command=COMMAND,
    parse=parse,
    facts=BootScripts,
    needs_root=True,
)
