"""GPU memory is protected by ECC and has no uncorrected errors.

What
----
ECC is on if the card has it, and no uncorrected error was counted since the driver was loaded.

Why
---
An uncorrected error ends the process it occurs in, and with it the whole job; a card that has had one tends to have
more. With ECC off, a flipped bit goes into the weights unnoticed, and all-reduce spreads it to every node.

Fix
---
After an uncorrected error: stop the job on this node, reset the card (`nvidia-smi --gpu-reset -i N`) or reboot, and
replace it if errors come back. To switch ECC on: `nvidia-smi -e 1`, then reboot.

Source
------
NVIDIA, GPU memory error management, and nvidia-smi(1), "ECC errors".
"""

from __future__ import annotations

from collections.abc import Iterator

from railbed.check.shared.port import gpu_obstacle
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.model.text import plural
from railbed.probes import gpu
from railbed.rules.judgement import Judgement, fail, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EXPECTED = "ECC on, no uncorrected errors"


def judge(node: NodeView) -> Iterator[Judgement]:
    """Judge the cards that have ECC."""
    gpus = node.read(gpu.PROBE)
    obstacle = gpu_obstacle(gpus, EXPECTED)
    protected = [card for card in gpus.gpus if card.ecc is not None]
    if obstacle:
        yield obstacle
    elif not protected:
        yield skip(f"{gpus.gpus[0].name} has no ECC")
    else:
        yield from _judge_cards(node, protected)


def _judge_cards(node: NodeView, cards: list[gpu.InstalledGpu]) -> Iterator[Judgement]:
    damaged = [card for card in cards if card.uncorrected_errors]
    unprotected = [card for card in cards if not card.ecc]
    uncounted = [card for card in cards if card.ecc and card.uncorrected_errors is None]
    for card in damaged:
        yield fail(
            expected=EXPECTED,
            observed=f"GPU {card.index}: {card.uncorrected_errors} uncorrected errors",
            remedy=f"stop the job, nvidia-smi --gpu-reset -i {card.index}; replace it if they come back",
        )
    if unprotected:
        yield warn(expected=EXPECTED, observed=f"ECC off on GPU {_indices(unprotected)}", fix=_fix(node, unprotected))
    if uncounted:
        yield unknown(expected=EXPECTED, observed=f"GPU {_indices(uncounted)} does not count errors")
    if not (damaged or unprotected or uncounted):
        yield ok(expected=EXPECTED, observed=f"ECC on, no errors on {plural(len(cards), 'GPU')}")


def _fix(node: NodeView, cards: list[gpu.InstalledGpu]) -> Fix:
    def command(state: int) -> str:
        return f"nvidia-smi -i {','.join(str(card.index) for card in cards)} -e {state}"

    return Fix(
        device=node.name,
        apply=as_steps(command(1)),
        undo=as_steps(command(0)),
        persistence=Persistence.KEPT,
        note="reboot for it to take effect",
    )


def _indices(cards: list[gpu.InstalledGpu]) -> str:
    return ", ".join(str(card.index) for card in cards)


RULE = Rule(
    name="gpu_ecc",
    title="ECC on, no uncorrected errors",
    scope="node",
    needs=(gpu.PROBE,),
    judge=judge,
    doc=__doc__,
)
