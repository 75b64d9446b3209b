"""The options of railbed capture; `run.py` does the work, and loads too slowly for `--help`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from railbed.cli.options import ClusterOption, JsonOption, Options, TimeoutOption
from railbed.errors import UsageError
from railbed.model.limits import DEVICE_SECONDS

FilesArgument = Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Further files for --from.")]
NodesOption = Annotated[str, typer.Option("--nodes", metavar="NAME,…", help="Only these nodes. [default: all]")]
RailOption = Annotated[list[str] | None, typer.Option("--rail", metavar="NAME", help="Only this rail; repeatable.")]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--for", metavar="SECONDS", min=0.1, help="Record this long; Ctrl-C also stops. [default: 10, or the stream]"
    ),
]
PacketsOption = Annotated[int, typer.Option("--packets", metavar="N", min=0, help="At most so many on each port.")]
BytesOption = Annotated[
    int,
    typer.Option(
        "--bytes", metavar="N", min=2_000_000, help="Keep only the newest of each port, in a ring of files this large."
    ),
]
SnapOption = Annotated[
    int,
    typer.Option("--snap", metavar="BYTES", min=64, max=65535, help="Of each packet; 128 keeps all headers."),
]
FullOption = Annotated[bool, typer.Option("--full", help="Record whole packets, with their payload.")]
WithOption = Annotated[
    str | None,
    typer.Option("--with", metavar="bench[:SUITE]", help="Send a stream of our own meanwhile, and stop when it ends."),
]
FromOption = Annotated[
    list[Path] | None,
    typer.Option("--from", metavar="FILE", help="Read recordings (pcap, pcapng, also compressed); no cluster needed."),
]
ExportOption = Annotated[
    Path | None,
    typer.Option("--export", metavar="FILE", help="Write all packets to one commented pcapng file, for Wireshark."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file of --export if there is one.")]
AllOption = Annotated[bool, typer.Option("--all", help="Also list what is fine, line by line.")]
ExplainOption = Annotated[str | None, typer.Option("--explain", metavar="RULE", help="Explain a rule and exit.")]


def capture_command(
    files: FilesArgument = None,
    nodes: NodesOption = "",
    rails: RailOption = None,
    seconds: SecondsOption = None,
    packets: PacketsOption = 0,
    size: BytesOption = 100_000_000,
    snap: SnapOption = 128,
    full: FullOption = False,
    stream: WithOption = None,
    from_files: FromOption = None,
    export: ExportOption = None,
    force: ForceOption = False,
    cluster: ClusterOption = None,
    everything: AllOption = False,
    explain: ExplainOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = DEVICE_SECONDS,
) -> int:
    """Record RoCE packets on all nodes at once and judge them: marks, losses, congestion; or read recordings.

    Example: railbed capture --with bench
    """
    from railbed.api.verbs.capture import capture, refuse_target
    from railbed.capture.recording import EVERYTHING_BYTES
    from railbed.cli.verbs.capture.run import cluster_to_record, explain_named, read_files, show_recording

    if explain:
        return explain_named(explain, as_json=as_json)
    inputs = [*(from_files or ()), *(files or ())]
    refuse_target(export, inputs, force=force)
    if from_files:
        _refuse_mixtures({"--nodes": nodes, "--rail": rails, "--for": seconds, "--with": stream})
        return read_files(inputs, cluster, export, force=force, as_json=as_json, everything=everything)
    if files:
        raise UsageError(f"unexpected argument {str(files[0])!r}", hint=f"to read a recording: --from {files[0]}")
    recording = partial(
        capture,
        cluster_to_record(cluster, timeout),
        nodes=[name.strip() for name in nodes.split(",") if name.strip()],
        rails=rails or (),
        seconds=seconds,
        packets=packets,
        ring_bytes=size,
        snap_length=EVERYTHING_BYTES if full else snap,
        stream=stream,
        export=export,
        force=force,
        reach=Options(json=as_json, timeout=timeout),
    )
    return show_recording(recording, as_json=as_json, everything=everything)


def _refuse_mixtures(wanted: dict[str, object]) -> None:
    for name, is_set in wanted.items():
        if is_set:
            raise UsageError(f"{name} and --from cannot be combined", hint="files are read as they are")
