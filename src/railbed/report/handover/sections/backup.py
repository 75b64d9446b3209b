"""What to back up, and which secrets are needed: where they are looked up, never what they are."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from railbed.model.cluster import Cluster, Login, Secret
from railbed.present.wording import name_range
from railbed.report.blocks import Block, Cell, Code, Heading, TableBlock, TextBlock
from railbed.report.document import Section
from railbed.report.handover.data import HandoverData, distinct
from railbed.transport.secret import secret_place

COLUMNS = ("what", "where", "why")
SECRETS = ("secret", "of", "where it is looked up")


def show(data: HandoverData) -> Sequence[Block]:
    """Show what cannot be made again, and the secrets."""
    blocks: list[Block] = [TableBlock(COLUMNS, list(_rows(data)))]
    if data.file is not None:
        paths = [data.file, data.notes_file, data.baseline.file if data.baseline else None, data.runs_folder]
        words = ["tar", "czf", f"{data.cluster.name}-backup.tar.gz", *(str(path) for path in paths if path is not None)]
        blocks.append(TextBlock(f"`{shlex.join(words)}` packs what is on this machine."))
    secrets = [
        (what, name_range(names, shortened=True), place) for (what, place), names in _secrets(data.cluster).items()
    ]
    heading = Heading("Secrets", "none is in any file of railbed: hand them over separately")
    return [*blocks, heading, TableBlock(SECRETS, secrets)] if secrets else blocks


def _rows(data: HandoverData) -> Iterator[tuple[Cell, ...]]:
    cluster = data.cluster
    if data.file is not None:
        yield "cluster file", Code(str(data.file)), "railbed discover cannot know its policy, names and logins"
    if data.notes_file is not None:
        yield "notes", Code(str(data.notes_file)), "only people know them"
    if data.baseline is not None:
        yield "baseline", Code(str(data.baseline.file)), "how fast the cluster was when it was healthy"
    yield "runs", Code(str(data.runs_folder)), "results, and what railbed configure --undo needs"
    key = cluster.login.key or "~/.ssh"
    yield "SSH key", Code(key), "without it the machines are reached by password, or not at all"
    if cluster.login.known_hosts:
        yield "host keys", Code(cluster.login.known_hosts), "they show that nobody has replaced a machine"
    nodes = name_range(cluster.nodes, shortened=True)
    yield "checkpoints, models, data", f"{cluster.training.workdir} on {nodes}", "days of training"
    for python, names in distinct({node: cluster.python_of(node) for node in cluster.nodes}).items():
        on = name_range(names, shortened=True)
        yield "training environment", f"{python} on {on}", "pip freeze lists its packages: save that list"
    for name, switch in cluster.switches.items():
        if switch.host:
            yield f"configuration of {name}", Code("show running-config"), "the lossless queue is gone without it"


def _secrets(cluster: Cluster) -> dict[tuple[str, str], list[str]]:
    """Return who needs each secret, by its kind and the place where it is looked up."""
    logins = {
        **{name: node.login.over(cluster.login) for name, node in cluster.nodes.items()},
        **{name: switch.login.over(cluster.login) for name, switch in cluster.switches.items()},
    }
    needed: dict[tuple[str, str], list[str]] = {}
    for name, login in logins.items():
        for what, secret in _of_login(login):
            needed.setdefault((what, secret_place(secret)), []).append(name)
    for node, bmc in cluster.bmcs().values():
        if bmc.password is not None:
            needed.setdefault(("password of the BMC", secret_place(bmc.password)), []).append(node)
    return needed


def _of_login(login: Login) -> Iterator[tuple[str, Secret]]:
    secrets = {"password": login.password, "passphrase of the key": login.passphrase, "password for sudo": login.sudo}
    for what, secret in secrets.items():
        if secret is not None:
            yield what, secret


SECTION = Section(name="backup", title="What to back up", order=90, show=show)
