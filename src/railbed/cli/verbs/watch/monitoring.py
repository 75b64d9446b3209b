"""railbed watch --write-monitoring: files for Prometheus, Grafana and systemd."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sys
from pathlib import Path

from railbed.api.exits import OK
from railbed.cli.screens.json import JsonScreen
from railbed.model.cluster import Cluster
from railbed.model.events import FilesRendered
from railbed.web.monitoring.files import monitoring_files, write_monitoring
from railbed.web.monitoring.service import Listening, Service


def write_monitoring_files(
    folder: Path, cluster: Cluster, cluster_file: Path, where: Listening, *, as_json: bool
) -> int:
    """Write the files and print their paths."""
    service = Service(
        program=_program(),
        cluster_file=cluster_file.absolute(),
        user=_user(),
        address=where.address,
        port=where.port,
        interval=where.interval,
        host=socket.gethostname() if where.address in ("0.0.0.0", "::") else "",  # noqa: S104  (compared, not bound)
    )
    files = monitoring_files(cluster, service)
    write_monitoring(folder, files)
    if as_json:
        JsonScreen().show(FilesRendered(message=f"written to {folder}", folder=str(folder), files=sorted(files)))
    else:
        sys.stdout.writelines(f"{folder / name}\n" for name in files)
    return OK


def _user() -> str:
    """Return the user of this process, whose SSH keys the service uses too."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _program() -> Path:
    """Return the command that systemd should start: the one that is running."""
    beside = Path(sys.executable).with_name("railbed")
    return beside if beside.exists() else Path(shutil.which("railbed") or "railbed").absolute()
