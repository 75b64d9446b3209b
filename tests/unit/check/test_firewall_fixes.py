"""The fix of the rule `firewall`, applied to and taken back from a real nftables, in a network namespace of its own."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from tests.support.rulecase import site_of

from railbed.check.book import CHECK_BOOK
from railbed.model.fix import RunStep, Step
from railbed.model.record import Finding, Verdict
from railbed.rules.engine import judge

pytestmark = pytest.mark.netns
RULES = """
table inet filter {
    set allowed {
        type ipv4_addr
        elements = { 10.9.0.1 }
    }
    chain input {
        type filter hook input priority 0; policy drop;
        ct state established,related accept
        ct status dnat accept
        fib daddr type multicast accept
        iifname "lo" accept
        ip saddr @allowed tcp dport 22 accept
    }
}
table ip second {
    chain late {
        type filter hook input priority 10; policy accept;
        tcp dport 1024-65535 reject
    }
}
"""
LIST = "echo '==> nft <=='; nft -j list ruleset; echo '==> none <=='"


def in_namespace(*commands: str) -> str:
    """Return what commands print in a namespace with these rules; they are gone afterwards."""
    if not shutil.which("nft"):
        pytest.skip("needs nft")
    script = "\n".join(["set -e", f"nft -f - <<'END'\n{RULES}END", *commands])
    ended = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def finding_of(listing: str) -> Finding:
    (finding,) = judge(CHECK_BOOK, site_of({"facts": {"a": {"firewall": listing}}}), [CHECK_BOOK.rules["firewall"]])
    return finding


def scripts(steps: tuple[Step, ...]) -> list[str]:
    return [step.script for step in steps if isinstance(step, RunStep)]


def rules_of(listing: str) -> object:
    return json.loads(listing.split("==> nft <==\n")[1].split("==> none <==", maxsplit=1)[0])


def test_nft_accepts_the_rail_and_nothing_else_and_is_restored() -> None:
    before = in_namespace(LIST)
    finding = finding_of(before)
    assert finding.verdict is Verdict.FAIL
    assert finding.fix is not None
    apply, undo = scripts(finding.fix.apply), scripts(finding.fix.undo)
    assert len(apply) == 2, "both chains drop what comes from peers"

    applied = finding_of(in_namespace(*apply, LIST))
    assert (applied.verdict, applied.observed) == (Verdict.OK, "accepted (nft)")
    elsewhere = [command.replace("eth1", "eth2") for command in apply]
    assert finding_of(in_namespace(*elsewhere, LIST)).verdict is Verdict.FAIL

    assert rules_of(in_namespace(*apply, *undo, LIST)) == rules_of(before)
    # The unit at boot may have inserted it again; and an undo may find nothing to undo.
    assert rules_of(in_namespace(*apply, *apply, *undo, *undo, LIST)) == rules_of(before)
