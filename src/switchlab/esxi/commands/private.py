"""`localcli --plugin-dir … networkinternal nic privstats get`: counters that only the driver knows."""

from __future__ import annotations

from collections.abc import Sequence

from switchlab.esxi.commands.outcome import CommandOutput, fail
from switchlab.esxi.model.cards import Nic
from switchlab.esxi.model.host import Host

WORDS = ["networkinternal", "nic", "privstats", "get", "-n"]
QUEUES = range(28, 32)


def run(host: Host, words: Sequence[str]) -> CommandOutput:
    """Run a command of the internal plug-ins."""
    if list(words[:-1]) != WORDS:
        return fail(f"Error: Unknown command or namespace {' '.join(words)}")
    nic = host.own_nic(words[-1])
    if nic is None:
        return fail(f"Unable to find NIC {words[-1]}")
    if nic.driver != "icen":
        return fail("Unable to get private statistics: Not supported")
    return CommandOutput(icen_statistics(nic))


def icen_statistics(nic: Nic) -> str:
    """Return the queues, global pause and PFC by traffic class, as icen prints them."""
    count = nic.counters.get
    lines = [
        f"rxq{queue}: totalPkts={count(f'rxq{queue}.totalPkts')} totalBytes={count(f'rxq{queue}.totalBytes')}"
        " nonEopDescs=0 allocRxBufFail=0 csumErr=0"
        for queue in QUEUES
    ]
    lines += ["", "LFC:"]
    for label, name in (("RxXon", "lfc.RxXon"), ("RxXoff", "rx_global_pause"), ("TxXon", "lfc.TxXon")):
        lines.append(f"{label}: {count(name)}")
    lines.append(f"TxXoff: {count('tx_global_pause')}")
    for priority in range(8):
        received, sent = count(f"rx_prio{priority}_pause"), count(f"tx_prio{priority}_pause")
        lines.append(f"PFC TC[{priority}]: RxXon=0 RxXoff={received} TxXon=0 TxXoff={sent} Xon2Xoff=0")
    return "".join(f"{line}\n" for line in lines)
