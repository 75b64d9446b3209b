"""From raw output to facts, or to the reason why there are none."""

from __future__ import annotations

from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from railbed import probes
from railbed.catalog import _modules, collect
from railbed.model.cluster import Policy
from railbed.model.probe import Probe
from railbed.model.reading import DeviceFacts, DeviceFailure, Known, Output, Unknown
from railbed.parsing.text import quote_path
from railbed.probes import ip_link
from railbed.probes.outputs import parse_output

FINE = b'[{"ifname":"lo","mtu":65536,"operstate":"UNKNOWN","flags":[]}]'


def output(**changes: object) -> Output:
    fields: dict[str, object] = {"device": "a", "key": "ip_link", "command": "ip", "stdout": b"", "exit": 0}
    fields |= {"sent": 0.0, "received": 0.0, **changes}
    return Output(**fields)  # type: ignore[arg-type]


def test_facts() -> None:
    reading = parse_output(ip_link.PROBE, output(stdout=FINE))
    assert isinstance(reading, Known)
    assert reading.facts.links["lo"].mtu == 65536


def test_a_late_tool_may_need_more_time() -> None:
    reading = parse_output(ip_link.PROBE, output(exit=None, failure="did not finish within 10 s"))
    assert isinstance(reading, Unknown)
    assert "--timeout" in reading.remedy


def test_a_tool_that_complains_but_answers_is_read() -> None:
    assert isinstance(parse_output(ip_link.PROBE, output(stdout=FINE, exit=1, stderr=b"a warning")), Known)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exit": 127}, "ip is not installed"),
        ({"exit": None, "failure": "did not finish within 10 s"}, "ip_link did not finish within 10 s"),
        ({"exit": 2, "stderr": b"Cannot open netlink socket\n"}, "ip_link exited with 2: Cannot open netlink socket"),
        ({"stdout": b"x" * 2**20, "truncated": True}, "ip_link printed more than 4 MiB"),
        ({"stdout": b"x" * (4 * 2**20 + 1)}, "ip_link printed more than 4 MiB"),
        ({"exit": 2, "stderr": b"\n" + b"y" * 2**20}, f"ip_link exited with 2: {'y' * 400}"),
        ({"stdout": b"Object \xff is unknown"}, "could not be parsed"),
        ({"stdout": FINE[:20]}, "could not be parsed"),
    ],
)
def test_why_not(changes: dict[str, object], reason: str) -> None:
    reading = parse_output(ip_link.PROBE, output(**changes))
    assert isinstance(reading, Unknown)
    assert reason in reading.reason
    assert not reading.device_failed


def test_a_line_without_end_is_kept_from_the_parser() -> None:
    def parse(_: str) -> str:
        raise AssertionError("it was parsed")

    probe = Probe(name="x", title="", command="x", parse=parse, facts=str)
    reading = parse_output(probe, output(stdout=b"fine\n" + b"x" * (64 * 1024 + 1)))
    assert isinstance(reading, Unknown)
    assert reading.reason == "x printed a line of more than 64 KiB"
    assert len(reading.evidence) == 2000


def test_json_may_be_one_line() -> None:
    links = b",".join(b'{"ifname":"eth%d","mtu":1500,"operstate":"UP","flags":[]}' % number for number in range(3000))
    assert isinstance(parse_output(ip_link.PROBE, output(stdout=b"[" + links + b"]")), Known)


def test_sudo_that_wants_a_password() -> None:
    probe = Probe(name="x", title="", command="x", parse=str, facts=str, tool="lldpctl", needs_root=True)
    reading = parse_output(probe, output(exit=1, stderr=b"sudo: a password is required\n"))
    assert isinstance(reading, Unknown)
    assert reading.reason == "x needs root"
    assert "lldpctl" in reading.remedy


def test_what_a_dead_device_did_not_say_is_the_devices_fault() -> None:
    facts = DeviceFacts(device="a", failure=DeviceFailure(reason="no route"))
    reading = facts.read(ip_link.PROBE)
    assert isinstance(reading, Unknown)
    assert (reading.reason, reading.device_failed) == ("no route", True)


def test_a_plug_in_bears_the_name_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Probe(name="other", title="", command="", parse=str, facts=str)
    monkeypatch.setattr(ip_link, "PROBE", wrong)
    with pytest.raises(ValueError, match="must be named 'ip_link'"):
        collect(probes, Probe, "PROBE")


def test_a_plug_in_in_a_folder_has_the_folders_name_before_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "plugins_of_a_test" / "kind"
    below.mkdir(parents=True)
    for package in (below.parent, below):
        (package / "__init__.py").touch()
    (below / "x.py").write_text("class X:\n    name = 'kind_x'\nPLUGIN = X()\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(collect(import_module("plugins_of_a_test"), object, "PLUGIN")) == ["kind_x"]
    (below.parent / "kind_x.py").write_text("from plugins_of_a_test.kind.x import PLUGIN\n")
    _modules.cache_clear()
    invalidate_caches()
    with pytest.raises(ValueError, match="second object named 'kind_x'"):
        collect(import_module("plugins_of_a_test"), object, "PLUGIN")


@pytest.mark.parametrize(
    ("path", "quoted"),
    [("~/data", "~/data"), ("~", "~"), ("/a b", "'/a b'"), ("/x; rm -rf /", "'/x; rm -rf /'"), ("~/a b", "~/'a b'")],
)
def test_paths_are_quoted_but_for_the_home_folder(path: str, quoted: str) -> None:
    assert quote_path(path) == quoted


@pytest.mark.parametrize(("ecn", "traffic_class"), [(True, 106), (False, 104)])
def test_dscp_26_makes_the_traffic_class(ecn: bool, traffic_class: int) -> None:
    assert Policy(ecn=ecn).traffic_class == traffic_class
