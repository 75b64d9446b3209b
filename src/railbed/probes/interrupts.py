"""Which processors take the interrupts of network and RDMA cards, and which are near the card (sysfs, /proc/irq)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import integer

VALUE = re.compile(r"(numa_node|local_cpulist):(.*)", re.ASCII)
INTERRUPT = re.compile(r"irq:\d{1,7}:([\d,-]*):([\d,-]*)", re.ASCII)
"""Number, the processors it goes to now, and those that it may go to."""
RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
MACHINE = "machine"
BALANCER = re.compile(r"irqbalance:(running|absent)")
MOST_PROCESSORS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class CardInterrupts:
    """The interrupts of one card."""

    numa_node: int | None = None
    near: int = 0
    """Processors on the card's NUMA node."""
    count: int = 0
    """Interrupts."""
    taken_near: int = 0
    """Interrupts that one of these processors takes, or if that is not shown, may take."""
    busiest: int | None = None
    """The processor that takes most interrupts alone."""
    taken_by_busiest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupts(TextFacts):
    """Interrupts by the PCI address of the card."""

    cards: dict[str, CardInterrupts]
    balancer: bool | None = None
    """Whether irqbalance runs, which moves interrupts."""


def parse(text: str) -> Interrupts:
    """Read a section for each card."""
    lines = Lines(text)
    cards: dict[str, CardInterrupts] = {}
    parts = dict(lines.sections()) if text.strip() else {}
    running = parts[MACHINE].first(BALANCER) if MACHINE in parts else None
    for name, part in parts.items():
        card = _card(part) if name != MACHINE else None
        if card:
            cards[name] = card
    lines.require(cards or MACHINE in parts or not text.strip(), "no interrupts of a card")
    return Interrupts(
        cards=cards, balancer=running[1] == "running" if running else None, not_understood=lines.not_understood
    )


def _card(lines: Lines) -> CardInterrupts | None:
    node: int | None = None
    near: set[int] | None = None
    taken: list[list[int]] = []
    for line in map(str.strip, lines):
        with lines.reading(line):
            if match := VALUE.fullmatch(line):
                if match[1] == "numa_node":
                    node = integer(match[2].strip())
                else:
                    near = set(_processors(match[2].strip()))
            elif match := INTERRUPT.fullmatch(line):
                taken.append(_processors(match[1] or match[2]))
            else:
                lines.unknown(line)
    if node is None and near is None and not taken:
        return None
    near = near or set()
    alone = Counter(processors[0] for processors in taken if len(processors) == 1)
    busiest = max(alone, key=lambda processor: (alone[processor], -processor), default=None)
    return CardInterrupts(
        numa_node=node if node is not None and node >= 0 else None,
        near=len(near),
        count=len(taken),
        taken_near=sum(1 for processors in taken if not near.isdisjoint(processors)),
        busiest=busiest,
        taken_by_busiest=0 if busiest is None else alone[busiest],
    )


def _processors(text: str) -> list[int]:
    """Return the numbers of `0-3,8`."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        match = RANGE.fullmatch(part)
        if not match:
            raise ParseError("expected a list of processors", line=text[:80])
        first, last = integer(match[1]), integer(match[2] or match[1])
        if last >= MOST_PROCESSORS or len(numbers) > MOST_PROCESSORS:
            raise ParseError("too many processors", line=text[:80])
        numbers += range(first, last + 1)
    return numbers


COMMAND = """
echo '==> machine <=='
if command -v pidof >/dev/null 2>&1; then
  if pidof irqbalance >/dev/null 2>&1; then echo irqbalance:running; else echo irqbalance:absent; fi
fi
cd /sys/bus/pci/devices 2>/dev/null || exit 0
for address in *; do
  [ -d "$address/msi_irqs" ] || continue
  [ -d "$address/net" ] || [ -d "$address/infiniband" ] || continue
  echo "==> $address <=="
  for name in numa_node local_cpulist; do
    read -r value 2>/dev/null <"$address/$name" && echo "$name:$value"
  done
  for path in "$address"/msi_irqs/*; do
    irq=${path##*/}
    now= may=
    read -r now 2>/dev/null </proc/irq/$irq/effective_affinity_list
    read -r may 2>/dev/null </proc/irq/$irq/smp_affinity_list
    [ "$now$may" ] && echo "irq:$irq:$now:$may"
  done
done
exit 0
"""

PROBE = Probe(
    name="interrupts",
    title="processors that take the interrupts of cards",
    command=COMMAND,
    parse=parse,
    facts=Interrupts,
)
