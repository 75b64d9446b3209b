"""Which counters an RDMA port has: they show the family of the card and what it can count."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

MOST_WORDS = 4
NAME = re.compile(r"[A-Za-z][\w.,]*(?: [\w.,]+)*", re.ASCII)
"""Some have several words (`RNR sent`) or a comma (`SwLinkUp,32`)."""

SIGNS = {
    "mlx4": {"rq_num_oos", "sq_num_to", "rq_num_dup"},
    "mlx5": {"out_of_buffer", "rx_write_requests", "resp_cqe_error"},
    "rxe": {"sent_pkts", "rcvd_pkts", "out_of_seq_request"},
    "bnxt_re": {"recoverable_errors", "to_retransmits", "rx_roce_errors", "rx_roce_discards"},
    "ionic": {"tx_rdma_ucast_pkts", "rx_rdma_cnp_pkts", "req_rx_pkt_seq_err"},
    "irdma": {"cnpHandled", "cnpIgnored", "RxECNMrkd"},
    "efa": {"completed_cmds", "alloc_pd_err", "submitted_cmds"},
}
"""Names that identify a family: two of them are enough, since drivers gain and lose counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCounterNames:
    """Names of the hw_counters of one port."""

    names: tuple[str, ...]
    family: str | None = None
    """mlx4, mlx5, rxe, bnxt_re, ionic, irdma, efa; None if the names do not show it."""

    @property
    def counts_congestion(self) -> bool:
        """Counts marked packets and congestion notifications."""
        return bool({"np_cnp_sent", "rx_ecn_marked_pkts", "rx_rdma_ecn_pkts", "RxECNMrkd"} & set(self.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterNames(TextFacts):
    """Names of hw_counters, by `device/port`; a bare list of names is under the empty name."""

    ports: dict[str, PortCounterNames]


def parse(text: str) -> CounterNames:
    """Read sections `device/port`, or a bare list of names."""
    if not text.strip():
        return CounterNames(ports={})
    lines = Lines(text)
    ports = {port: _port(listing) for port, listing in lines.sections()}
    lines.require_known("expected names of counters")
    return CounterNames(ports=ports, not_understood=lines.not_understood)


def _port(lines: Lines) -> PortCounterNames:
    listed: list[str] = []
    for line in lines:
        with lines.reading(line):
            listed += [name for cell in re.split(r"\t| {2,}", line) for name in _names(cell.strip())]
    names = tuple(sorted(listed))
    return PortCounterNames(names=names, family=_family(set(names)))


def _names(cell: str) -> list[str]:
    """Return the names in a cell: one, perhaps quoted by `ls`, or several if the spaces between columns were lost."""
    name = re.sub(r"^'(.*)'$", r"\1", cell)
    if name and (not NAME.fullmatch(name) or ("_" not in name and len(name.split()) > MOST_WORDS)):
        raise ParseError("expected names of counters", line=cell)
    # No driver has names with both spaces and underscores.
    return name.split() if "_" in name else [name] if name else []


def _family(names: set[str]) -> str | None:
    return next((family for family, signs in SIGNS.items() if len(signs & names) >= 2), None)


COMMAND = """
cd /sys/class/infiniband 2>/dev/null || exit 0
for port in */ports/*; do
  [ -d "$port" ] || continue
  echo "==> ${port%%/*}/${port##*/} <=="
  ls "$port/hw_counters" 2>/dev/null
done
exit 0
"""

PROBE = Probe(
    name="counter_names",
    title="which counters an RDMA port has",
    command=COMMAND,
    parse=parse,
    facts=CounterNames,
)
