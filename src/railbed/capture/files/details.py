"""Every header of single packets, by name: for the ladder of a message, and as evidence."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from railbed.capture.files import layers
from railbed.capture.files.addresses import AddressTable
from railbed.capture.files.columns import make_engine
from railbed.capture.files.formats.pcap import FileState
from railbed.capture.files.layers import REASON_TEXT, LinkType, Reason
from railbed.capture.files.reader import file_records
from railbed.capture.files.source import FileWindow, open_source
from railbed.capture.opcodes import HEADER_BYTES, OPCODES, opcode_name
from railbed.errors import CaptureFileError

Details = dict[str, Any]
NAK_REASONS = {
    0: "PSN sequence error",
    1: "invalid request",
    2: "remote access error",
    3: "remote operational error",
    4: "invalid RD request",
}
FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "RDETH": (">I", ("context",)),
    "DETH": (">II", ("key", "source_qp")),
    "XRCETH": (">I", ("receive_queue",)),
    "FETH": (">I", ("flags",)),
    "RETH": (">QII", ("address", "key", "length")),
    "AtomicETH": (">QIQQ", ("address", "key", "swap_or_add", "compare")),
    "AETH": (">I", ("syndrome",)),
    "AtomicAckETH": (">Q", ("original",)),
    "ImmDt": (">I", ("value",)),
    "IETH": (">I", ("key",)),
    "CNP": ("", ()),
}


class _LeftOut(Exception):
    """A packet that is not decoded to its end."""


def packet_details(path: Path, number: int) -> Details:
    """Return every header of a packet by its number, from 1, as Wireshark counts."""
    return packets_details(path, [number])[0]


def packets_details(path: Path, numbers: Iterable[int]) -> list[Details]:
    """Return every header of some packets, in one pass over the file."""
    wanted = list(numbers)
    results: dict[int, Details] = {}
    source = open_source(path)
    try:
        window, before = FileWindow(source), 0
        for records in file_records(window, path, FileState(), make_engine("auto", AddressTable(), path)):
            for number in set(wanted) - results.keys():
                if before < number <= before + len(records):
                    row = number - before - 1
                    data = window.copy(int(records.start[row]), int(records.captured[row]))
                    about = {"number": number, "time": int(records.time[row]), "length": int(records.length[row])}
                    results[number] = about | decode_frame(data, LinkType(int(records.link[row])))
            before += len(records)
            if len(results) == len(set(wanted)):
                break
    finally:
        source.close()
    missing = sorted(set(wanted) - results.keys())
    if missing:
        raise CaptureFileError(f"{path} has no packet {missing[0]}: it has {before}")
    return [results[number] for number in wanted]


def decode_frame(data: bytes, link: LinkType) -> Details:
    """Return the headers of one packet; `left_out` has the reason if it is not RoCE, or not all of it was recorded."""
    details: Details = {"captured": len(data)}
    try:
        _Frame(data, details).link(link)
    except _LeftOut as reason:
        details["left_out"] = str(reason)
    return details


class _Frame:
    """The bytes of one packet, and how far they are decoded."""

    def __init__(self, data: bytes, details: Details) -> None:
        self.data, self.details = data, details
        self.position = 0
        self.network = 0
        """Where the IP header begins, or the global route header."""
        self.is_plain = True
        """Neither options nor extension headers nor fragments: its ICRC is defined."""

    def leave_out(self, reason: Reason) -> _LeftOut:
        return _LeftOut(REASON_TEXT[reason])

    def take(self, form: str) -> tuple[Any, ...]:
        """Return the next values."""
        size = struct.calcsize(form)
        if self.position + size > len(self.data):
            raise self.leave_out(Reason.CUT_OFF)
        self.position += size
        return struct.unpack_from(form, self.data, self.position - size)

    def link(self, kind: LinkType) -> None:
        if kind is LinkType.UNSUPPORTED:
            raise self.leave_out(Reason.OTHER_LINK)
        if kind is LinkType.RAW:
            (version,) = self.take(">B")
            self.position -= 1
            self.network_layer({4: layers.IPV4, 6: layers.IPV6}.get(version >> 4, 0))
            return
        if kind is LinkType.ETHERNET:
            destination, source, ethertype = self.take(">6s6sH")
            self.details["Ethernet"] = {"source": source.hex(":"), "destination": destination.hex(":")}
        elif kind is LinkType.COOKED:
            _, _, _, source, ethertype = self.take(">HHH8sH")
            self.details["Linux cooked"] = {"source": source[:6].hex(":")}
        else:
            ethertype, _, _, _, _, _, source = self.take(">HHIHBB8s")
            self.details["Linux cooked"] = {"source": source[:6].hex(":")}
        while ethertype in layers.VLAN_TAGS:
            control, ethertype = self.take(">HH")
            tag = {"priority": control >> 13, "drop_eligible": control >> 12 & 1, "id": control & 0xFFF}
            self.details.setdefault("VLAN", []).append(tag)
        self.network_layer(ethertype)

    def network_layer(self, ethertype: int) -> None:
        self.network = self.position
        stages = {
            layers.IPV4: self.ipv4,
            layers.IPV6: self.ipv6,
            layers.ROCE1: self.roce1,
            layers.FLOW_CONTROL: self.flow_control,
        }
        if ethertype not in stages:
            raise self.leave_out(Reason.NOT_ROCE)
        stages[ethertype]()

    def ipv4(self) -> None:
        version, tos, total, _, fragment, hops, protocol, _, source, destination = self.take(">BBHHHBBH4s4s")
        if not 0x45 <= version <= 0x4F:
            raise self.leave_out(Reason.MALFORMED)
        self.details["IPv4"] = _addresses(source, destination, tos) | {"hops": hops, "length": total}
        self.is_plain = version == 0x45 and not fragment & layers.MORE_FRAGMENTS
        self.position += (version & 15) * 4 - 20
        if fragment & layers.FRAGMENT_OFFSET and protocol in (layers.UDP, layers.GRE):
            raise self.leave_out(Reason.FRAGMENT)
        self.transport_layer(protocol)

    def ipv6(self) -> None:
        first, payload, protocol, hops, source, destination = self.take(">IHBB16s16s")
        if first >> 28 != 6:
            raise self.leave_out(Reason.MALFORMED)
        self.details["IPv6"] = _addresses(source, destination, first >> 20 & 0xFF) | {"hops": hops, "length": payload}
        while protocol in layers.EXTENSIONS:
            self.is_plain = False
            kind, begin = protocol, self.position
            protocol, count, fragment, _ = self.take(">BBHI")
            if kind == layers.FRAGMENT_HEADER and fragment >> 3:
                raise self.leave_out(Reason.FRAGMENT)
            size = count * 4 + 8 if kind == layers.AUTHENTICATION_HEADER else count * 8 + 8
            self.position = begin + (8 if kind == layers.FRAGMENT_HEADER else size)
        self.transport_layer(protocol)

    def transport_layer(self, protocol: int) -> None:
        if protocol == layers.UDP:
            source, destination, length, _ = self.take(">HHHH")
            self.details["UDP"] = {"source_port": source, "destination_port": destination, "length": length}
            if destination != layers.ROCE_PORT:
                raise self.leave_out(Reason.NOT_ROCE)
            self.infiniband(length - 8)
        elif protocol == layers.GRE and "mirrored_by" not in self.details:
            self.erspan()
        else:
            raise self.leave_out(Reason.NOT_ROCE)

    def erspan(self) -> None:
        flags, kind = self.take(">HH")
        if kind not in (layers.ERSPAN2, layers.ERSPAN3) or flags & 0x4007:
            raise self.leave_out(Reason.NOT_ROCE)
        self.position += 4 * (flags >> 15) + 4 * (flags >> 13 & 1) + 4 * (flags >> 12 & 1)
        outer: Details = {
            name: self.details.pop(name) for name in ("Ethernet", "VLAN", "IPv4", "IPv6") if name in self.details
        }
        link = LinkType.ETHERNET
        if kind == layers.ERSPAN3:
            first, time, _, last = self.take(">IIHH")
            outer["ERSPAN"] = {"version": 3, "vlan": first >> 16 & 0xFFF, "session": first & 0x3FF, "timestamp": time}
            link = LinkType.RAW if last >> 10 & 31 == 2 else LinkType.ETHERNET
            self.position += 8 * (last & 1)
        elif flags & 0x1000:
            first, index = self.take(">II")
            outer["ERSPAN"] = {"version": 2, "vlan": first >> 16 & 0xFFF, "session": first & 0x3FF, "index": index}
        else:
            outer["ERSPAN"] = {"version": 1}
        self.details["mirrored_by"] = outer
        self.is_plain = True
        self.link(link)

    def roce1(self) -> None:
        first, payload, following, hops, source, destination = self.take(">IHBB16s16s")
        if first >> 28 != 6 or following != layers.IB_TRANSPORT:
            raise self.leave_out(Reason.MALFORMED)
        self.details["GRH"] = _addresses(source, destination, first >> 20 & 0xFF) | {"hops": hops, "length": payload}
        self.infiniband(payload)

    def flow_control(self) -> None:
        (opcode,) = self.take(">H")
        if opcode == layers.PFC_OPCODE:
            classes, *quanta = self.take(">9H")
            chosen = {priority: quanta[priority] for priority in range(8) if classes >> priority & 1}
            self.details["PFC"] = {"quanta": chosen}
        elif opcode == layers.PAUSE_OPCODE:
            self.details["pause"] = {"quanta": self.take(">H")[0]}
        else:
            raise self.leave_out(Reason.NOT_ROCE)

    def infiniband(self, size: int) -> None:
        """Decode the transport headers of a packet with so many bytes from the base header to the ICRC."""
        begin = self.position
        code, flags, key, qp, psn = self.take(">BBHII")
        opcode, pad = OPCODES.get(code), flags >> 4 & 3
        self.details["BTH"] = {"opcode": code, "operation": opcode_name(code), "key": key, "pad": pad}
        self.details["BTH"] |= {"qp": qp & 0xFFFFFF, "psn": psn & 0xFFFFFF, "version": flags & 15}
        bits = {"ack_request": psn >> 31, "solicited": flags >> 7, "migration": flags >> 6 & 1}
        self.details["BTH"] |= bits | {"fecn": qp >> 31, "becn": qp >> 30 & 1}
        headers = opcode.headers if opcode else ()
        payload = size - layers.BTH_BYTES - layers.ICRC_BYTES - pad - sum(HEADER_BYTES[name] for name in headers)
        if payload < 0:
            raise self.leave_out(Reason.MALFORMED)
        self.details["payload"] = payload
        for name in headers:
            self.details[name] = self.extend(name)
        if begin + size <= len(self.data):
            self.icrc(begin, begin + size)

    def extend(self, name: str) -> Details:
        form, fields = FORMS[name]
        if self.position + HEADER_BYTES[name] > len(self.data):
            raise _LeftOut(f"cut off in the {name} header" if fields else "cut off")
        values = dict(zip(fields, self.take(form), strict=True))
        self.position += HEADER_BYTES[name] - struct.calcsize(form)
        match name:
            case "DETH":
                values["source_qp"] &= 0xFFFFFF
            case "AETH":
                return _answer(values["syndrome"])
        return values

    def icrc(self, begin: int, end: int) -> None:
        value = self.data[end - 4 : end]
        result = None
        if self.is_plain:
            covered = bytearray(self.data[self.network : end - 4])
            transport = begin - self.network
            changed = [1, 8, 10, 11] if covered[0] >> 4 == 4 else [1, 2, 3, 7]
            udp = [] if "GRH" in self.details else [transport - 2, transport - 1]
            for place in (*changed, *udp, transport + 4):
                covered[place] = 0xFF
            covered[0] |= 0 if covered[0] >> 4 == 4 else 0x0F
            result = zlib.crc32(b"\xff" * 8 + covered) == int.from_bytes(value, "little")
        self.details["ICRC"] = {"value": value.hex(), "right": result}


def _addresses(source: bytes, destination: bytes, tos: int) -> Details:
    ends = {"source": str(ip_address(source)), "destination": str(ip_address(destination))}
    return {**ends, "dscp": tos >> 2, "ecn": tos & 3}


def _answer(word: int) -> Details:
    syndrome = word >> 24
    code = syndrome & 31
    match syndrome >> 5 & 3:
        case 0:
            text = "ACK"
        case 1:
            text = "RNR NAK"
        case 3:
            text = f"NAK: {NAK_REASONS.get(code, f'code {code}')}"
        case _:
            text = "reserved"
    return {"syndrome": syndrome, "answer": text, "msn": word & 0xFFFFFF}
