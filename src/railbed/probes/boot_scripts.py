"""What else acts at boot: other people's units and the scripts that they start, hooks, udev rules, cron.

Only the names of files that mention a tool or a setting are printed, never what is in them. What such a file does is
not understood: the setting is neither stored nor missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

PATTERNS = {
    "mtu": "mtu",
    "address": "(^|[^a-z])ip( -[a-z0-9]+)* +a(ddr(ess)?)? |ifconfig|nmcli|dhclient|dhcpcd",
    "qos": "mlnx_qos|lldptool|lldpad|pfctx|pfcrx|(^|[^a-z])dcb ",
    "tos": "roce_tos|traffic_class",
}
"""By setting, what a file mentions that may set it."""
MAX_FILES = 300
COMMAND = rf"""
[ -d /run/systemd/system ] || {{ echo '==> end <=='; exit 0; }}
units=$(find /etc/systemd/system /usr/local/lib/systemd/system -type f \
  \( -name '*.service' -o -name '*.conf' \) ! -name railbed.service -size -64k 2>/dev/null | head -n {MAX_FILES})
hooks=$(find -L /etc/rc.local /etc/rc.d/rc.local /etc/udev/rules.d /etc/systemd/network \
  /etc/network/if-pre-up.d /etc/network/if-up.d /etc/NetworkManager/dispatcher.d /etc/networkd-dispatcher \
  /etc/crontab /etc/cron.d /var/spool/cron /var/lib/cloud/instance/user-data.txt /etc/modprobe.d /etc/tuned \
  -type f ! -path '/etc/systemd/network/*.network' ! -path '/etc/systemd/network/*.conf' -size -512k 2>/dev/null |
  head -n {MAX_FILES})
files=$(printf '%s\n%s\n' "$units" "$hooks" | grep .)
started=$(printf '%s\n' "$files" | tr '\n' '\0' | xargs -0 -r grep -shE '^Exec|@reboot|RUN' |
  grep -oE '/[A-Za-z0-9_./@+-]+' | sort -u | head -n {MAX_FILES} | while read -r file; do
    [ -f "$file" ] && [ "$(head -c 2 "$file" | tr -d '\0')" = '#!' ] && echo "$file"
  done)
mentions() {{
  printf '==> %s <==\n' "$1"
  printf '%s\n%s\n' "$files" "$started" | grep . | tr '\n' '\0' | xargs -0 -r grep -slEi -- "$2"
}}
{chr(10).join(f"mentions {name} '{pattern}'" for name, pattern in PATTERNS.items())}
echo '==> end <=='
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootScripts(TextFacts):
    """Files that may change settings at boot."""

    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By setting; one that is missing was not looked for."""

    def of(self, setting: str) -> tuple[str, ...] | None:
        """Return the files that may change a setting; None if that is not known."""
        return self.files.get(setting)


def parse(text: str) -> BootScripts:
    """Read the sections."""
    lines = Lines(text)
    parts = {name: part.text for name, part in lines.sections()}
    lines.require("end" in parts, "the output is not complete")
    return BootScripts(
        files={name: tuple(sorted(set(body.splitlines()))) for name, body in parts.items() if name in PATTERNS},
        not_understood=lines.not_understood,
    )


PROBE = Probe(
    name="boot_scripts",
    title="files that may change settings at boot",
    command=COMMAND,
    parse=parse,
    facts=BootScripts,
    needs_root=True,
)
