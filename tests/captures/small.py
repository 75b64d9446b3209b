"""Small captures of every form, to be damaged."""

from __future__ import annotations

import gzip
from dataclasses import replace

from railbed.capture.files.source import zstd_module
from railbed.capture.packets import Kind
from tests.captures import files, headers
from tests.captures.flows import Flow
from tests.captures.truth import Packet, cnp, other_frames, pause, pfc


def small_captures() -> list[bytes]:
    """Return a file of each form, with packets of each kind."""
    flow = Flow(mtu=64)
    packets = [*flow.write(150), flow.ack(), flow.notify(), flow.nak(1), *flow.read(100), pfc({3: 9}), pause(1)]
    packets += [Packet(opcode=opcode, payload=3) for opcode in (0x0B, 0x13, 0x46, 0x65, 0xA6)]
    packets += [replace(cnp(), source="fd00::1", destination="fd00::2", tags=((0x8100, 5),))]
    packets += [Packet(source="fd00::1", destination="fd00::2", between=headers.extensions((0, 44)))]
    packets += [Packet(kind=Kind.ROCE1, source="fe80::1", destination="fe80::2"), Packet(between=bytes(8))]
    packets += [Packet(mirrored=kind) for kind in ("erspan2", "erspan3+")]
    records = [*files.records(packets), *files.other_records(other_frames())]
    usual = [files.pcap(records), files.pcap(records, order=">", nano=False), files.pcapng(records)]
    interface = files.Interface(resolution=0x80 | 30, offset=5)
    several = files.pcapng(records[:5], order=">", interface=interface) + files.pcapng(records[5:])
    several += files.simple(records[0]) + files.statistics(3) + files.block("<", 99, bytes(20))
    cut = files.pcap(files.records(packets, snap=60), snap=60)
    cooked = files.pcap(files.records([Packet()], link=files.COOKED2), link=files.COOKED2)
    return [*usual, several, cut, cooked, gzip.compress(usual[0]), zstd_module().compress(usual[2])]
