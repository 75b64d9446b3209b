"""configure installs missing programs and removes exactly those again, with a stand-in for apt that keeps a list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Result
from tests.support.labs import RunningLab

pytestmark = [pytest.mark.netns, pytest.mark.xdist_group("configure")]
PACKAGES = ["ethtool", "iproute2", "iputils-ping"]
INSTALL = r"""
cd /run && mkdir -p apt var/apt/lists && printf '%s\n' ethtool iproute2 iputils-ping >apt/list &&
cat >apt/apt-get <<'END' && cat >apt/dpkg-query <<'END2' && chmod 755 apt/apt-get apt/dpkg-query &&
#!/bin/sh
case "$*" in
*update) ;;
*" -s "*" install iperf3") ;;
*" -s "*" install fio") echo "E: Unable to locate package fio" >&2; exit 100 ;;
*" install iperf3")
  echo libsctp1 >>/run/apt/list
  if [ -e /run/apt/broken ]; then echo "E: Failed to fetch iperf3" >&2; exit 100; fi
  echo iperf3 >>/run/apt/list; umount /usr/bin/iperf3 ;;
*" purge "*)
  for package; do
    grep -qx -e "$package" /run/apt/list || continue
    grep -vx -e "$package" /run/apt/list >/run/apt/new; mv /run/apt/new /run/apt/list
    [ "$package" != iperf3 ] || mount --bind /dev/null /usr/bin/iperf3
  done ;;
*) echo "apt-get $*: not expected" >&2; exit 2 ;;
esac
END
#!/bin/sh
echo "rc  removed-long-ago"
sed 's/^/ii  /' /run/apt/list
END2
mount --bind apt/apt-get /usr/bin/apt-get && mount --bind apt/dpkg-query /usr/bin/dpkg-query &&
mount --bind var /var/lib && mount --bind /dev/null /usr/bin/iperf3
"""
REMOVE = """
umount /usr/bin/apt-get /usr/bin/dpkg-query /var/lib
umount /usr/bin/iperf3 2>/dev/null
rm -r /run/apt /run/var
"""


@pytest.fixture
def lab(netns_lab: RunningLab, tmp_path: Path) -> Iterator[RunningLab]:
    """One node without iperf3, on which Debian's tools keep a list of packages instead of installing any."""
    lab = netns_lab.seen_from(tmp_path, nodes=1)
    if lab.run_inside("node1", "test -x /usr/bin/apt-get && test -x /usr/bin/iperf3").code:
        pytest.skip("the stand-ins replace apt-get and iperf3 of Debian")
    made = lab.run_inside("node1", INSTALL)
    assert made.code == 0, made
    yield lab
    assert lab.run_inside("node1", REMOVE).code == 0


def configure(lab: RunningLab, *options: str) -> Result:
    return lab.railbed("configure", "--json", "--timeout", "120", *options)


def installed(lab: RunningLab) -> list[str]:
    return sorted(lab.run_inside("node1", "cat /run/apt/list").out.split())


def test_missing_programs_are_installed_on_request_and_exactly_those_are_removed(lab: RunningLab) -> None:
    (left_out,) = [record for record in configure(lab).records if record["kind"] == "change"]
    assert (left_out["before"], left_out["left_out"]) == (
        "missing: iperf3",
        "needs your decision: if node1 reaches a mirror of its packages; "
        f"`railbed configure --rule tools_installed -c {lab.cluster}` includes it, `--all` all of them",
    )
    (included,) = [record for record in configure(lab, "--all").records if record["kind"] == "change"]
    assert (included["before"], included["left_out"]) == ("missing: iperf3", "")
    applied = configure(lab, "--rule", "tools_installed", "--apply", "--yes")
    assert applied.code == 0, applied
    assert installed(lab) == sorted([*PACKAGES, "iperf3", "libsctp1"])
    assert lab.verdicts("tools_installed") == {("tools_installed", "node1"): "ok"}
    assert lab.run_inside("node1", "echo vim >>/run/apt/list").code == 0, "somebody else installs something"
    (run,) = [path.name for path in (lab.folder / "runs").glob("*-configure*") if (path / "undo.jsonl").exists()]
    undone = configure(lab, "--undo", run, "--yes")
    assert undone.code == 0, undone
    assert installed(lab) == sorted([*PACKAGES, "vim"])
    assert lab.run_inside("node1", "ls /run/var").out == "apt\n", "nothing of railbed is left"


def test_what_no_source_has_is_left_out_and_named(lab: RunningLab) -> None:
    if lab.run_inside("node1", "test -x /usr/bin/fio").code:
        pytest.skip("the program that is missing is fio, which this machine lacks")
    assert lab.run_inside("node1", "mount --bind /dev/null /usr/bin/fio").code == 0
    try:
        applied = configure(lab, "--rule", "tools_installed", "--apply", "--yes")
        assert installed(lab) == sorted([*PACKAGES, "iperf3", "libsctp1"]), applied
        (finding,) = lab.railbed("check", "tools_installed", "--json").findings
        assert (finding["observed"], finding["fix"]) == ("missing: fio", None)
        assert finding["remedy"].startswith("no package source of the node has fio")
        # Sources that were read again may have it.
        assert lab.run_inside("node1", "touch -d '+1 minute' /run/var/apt/lists").code == 0
        (finding,) = lab.railbed("check", "tools_installed", "--json").findings
        assert finding["fix"]
    finally:
        assert lab.run_inside("node1", "umount /usr/bin/fio").code == 0


def test_what_a_failed_installation_left_is_removed(lab: RunningLab) -> None:
    assert lab.run_inside("node1", "touch /run/apt/broken").code == 0
    result = configure(lab, "--rule", "tools_installed", "--apply", "--yes")
    assert result.code == 1
    (event,) = [record for record in result.records if record.get("name") == "device_changed"]
    assert event["data"]["outcome"] == "restored"
    assert "E: Failed to fetch iperf3" in event["message"]
    assert installed(lab) == PACKAGES
