"""The exporter as a service of systemd."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from railbed.model.cluster import LOCAL_HOST, Cluster
from railbed.web.access import is_loopback

UNIT = "railbed-exporter.service"
DEFAULT_PORT = 9817
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where the exporter listens, and how often it samples nodes if not every second."""

    address: str = LOOPBACK
    port: int = DEFAULT_PORT
    interval: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Listening):
    """Where and how the exporter runs."""

    program: Path
    """The `railbed` command."""
    cluster_file: Path
    user: str
    host: str = ""
    """Where Prometheus finds it, if not at `address`."""

    @property
    def target(self) -> str:
        """Where Prometheus scrapes it."""
        host = self.host or self.address
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def with_token(self) -> bool:
        """Whether the exporter asks for a token: it does on every address that others can reach."""
        return not is_loopback(self.address)


def unit(cluster: Cluster, service: Service) -> str:
    """Return the unit file. The service may read the user's SSH keys, and write nothing."""
    words = ["watch", "--exporter", "--cluster", str(service.cluster_file), "--port", str(service.port)]
    if service.address != LOOPBACK:
        words += ["--address", service.address]
    if service.interval is not None:
        words += ["--interval", f"{service.interval:g}"]
    credential = [f"LoadCredential=token:{TOKEN}", "Environment=RAILBED_TOKEN_FILE=%d/token"]
    lines = [
        "[Unit]",
        f"Description=railbed: metrics of the cluster {cluster.name} for Prometheus",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        f"User={service.user}",
        f"WorkingDirectory={_escape(str(service.cluster_file.parent))}",
        f"ExecStart={' '.join(map(_quote, [str(service.program), *words]))}",
        "# Passwords, if the cluster file takes them from the environment: NAME=value lines, readable for root only.",
        "EnvironmentFile=-/etc/railbed/exporter.env",
        *(credential if service.with_token else []),
        *HARDENED,
        *([] if any(node.host == LOCAL_HOST for node in cluster.nodes.values()) else BLIND),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


TOKEN = "/etc/railbed/exporter.token"  # noqa: S105  (a path)
HARDENED = """\
Restart=on-failure
RestartSec=10
TimeoutStopSec=20
MemoryMax=1G
TasksMax=256
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM""".splitlines()
BLIND = ["PrivateDevices=yes", "ProtectProc=invisible", "ProcSubset=pid"]
"""Hides this machine's devices and counters, unless it is a node itself."""


def _escape(text: str) -> str:
    """Escape systemd's specifiers."""
    return text.replace("%", "%%")


def _quote(word: str) -> str:
    """Quote a word of a command line for systemd, which replaces %, $ and backslashes."""
    text = _escape(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return text if re.fullmatch(r"[\w@%+=:,./\[\]-]+", text) else f'"{text}"'
