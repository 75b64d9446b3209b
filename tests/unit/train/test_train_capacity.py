"""Whether a model fits, from facts: the refusal in numbers, and advice that would help."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.smallmodel import recipe

from railbed.model.cluster import Gpu, Node
from railbed.model.reading import DeviceFacts, Known, Output, Unknown
from railbed.probes import gpu, memory
from railbed.train.capacity.estimate import micro_limit
from railbed.train.capacity.memory import Room, advice, fit_of, refusal, room_of
from railbed.train.recipe import Recipe

GB = 10**9
OUTPUT = Output(device="a", key="", command="", stdout=b"", exit=0, sent=0.0, received=0.0)
WIDE = {"layers": 24, "width": 2048, "heads": 16, "context": 1024, "vocabulary": 50257}
CPU = Node(host="192.0.2.1")


def settings(**changes: Any) -> Recipe:
    return Recipe.read(recipe(**changes))


def facts(**readings: object) -> DeviceFacts:
    known: dict[str, tuple[Known[object] | Unknown]] = {
        name: (Unknown(reason="not read") if value is None else Known(facts=value, output=OUTPUT),)
        for name, value in readings.items()
    }
    return DeviceFacts(device="a", readings=known)


def room(size: int, ranks: int = 1) -> Room:
    return Room(node="a", ranks=ranks, device="cpu", memory=size)


def card(name: str, size: int | None, capability: str | None = "9.0") -> gpu.InstalledGpu:
    return gpu.InstalledGpu(index=0, name=name, memory_bytes=size, compute_capability=capability)


def test_a_node_without_gpus_has_what_is_free_shared_by_its_ranks() -> None:
    known = facts(memory=memory.Memory(total=64 * GB, available=40 * GB), gpu=gpu.Gpus())
    room = room_of(known, CPU, 4, "auto")
    assert room
    assert (room.device, room.usable, room.value_bytes) == ("cpu", 40 * GB, 4)
    old_kernel = room_of(facts(memory=memory.Memory(total=64 * GB), gpu=None), CPU, 4, "auto")
    assert old_kernel
    assert old_kernel.usable == 64 * GB


def test_the_smallest_gpu_counts_of_those_that_get_a_rank() -> None:
    cards = gpu.Gpus(gpus=(card("H200", 140 * GB), card("A100", 40 * GB, "8.0"), card("T4", 16 * GB, "7.5")))
    known = facts(memory=memory.Memory(total=64 * GB), gpu=cards)
    two, three = room_of(known, CPU, 2, "auto"), room_of(known, CPU, 3, "auto")
    assert two
    assert three
    assert (two.device, two.usable, two.value_bytes) == ("A100", 34 * GB, 2)
    assert (three.device, three.value_bytes) == ("T4", 2)
    old = facts(memory=None, gpu=gpu.Gpus(gpus=(card("GTX 1080", 8 * GB, "6.1"),)))
    wide, narrow = room_of(old, CPU, 1, "auto"), room_of(old, CPU, 1, "fp16")
    assert wide
    assert narrow
    assert (wide.value_bytes, narrow.value_bytes) == (4, 2)


def test_a_gpu_that_only_the_file_knows() -> None:
    node = Node(host="192.0.2.1", gpus=(Gpu(name="H200", memory_gb=140),))
    room = room_of(facts(memory=memory.Memory(total=64 * GB), gpu=None), node, 1, "fp32")
    assert room
    assert (room.device, room.memory, room.value_bytes) == ("H200", 140 * 2**30, 4)
    silent = Node(host="192.0.2.1", gpus=(Gpu(name="H200"),))
    assert room_of(facts(memory=memory.Memory(total=64 * GB), gpu=None), silent, 1, "auto") is None


def test_what_is_not_known_is_not_judged() -> None:
    assert room_of(facts(memory=None, gpu=None), CPU, 1, "auto") is None


def test_too_big_in_one_sentence_with_numbers() -> None:
    big = settings(model=WIDE, batch={"micro": 8, "sequences": 64})
    sentence = refusal(fit_of(big, 2, room(32 * GB, ranks=2)))
    assert sentence == (
        "the model is too big for a: its 2 ranks need about 115 GB, and 32.0 GB are free (1,313,626,112 parameters: "
        "each rank needs 21.0 GB for them and the optimiser, 28.2 GB for a micro-batch of 8)"
    )


@pytest.mark.parametrize(
    ("size", "ranks", "words"),
    [
        (45 * GB, 1, "--set batch.micro=1 or --set gradient_checkpointing=true would"),
        (70 * GB, 2, "--set batch.micro=1 or --set gradient_checkpointing=true or --ranks 1 would"),
        (39 * GB, 1, "--set batch.micro=1 and --set gradient_checkpointing=true together would"),
        (4 * GB, 1, "a smaller model (model.width, model.layers, model.context) or a node with more memory would help"),
    ],
)
def test_advice_is_what_would_help(size: int, ranks: int, words: str) -> None:
    big = settings(model=WIDE, batch={"micro": 8, "sequences": 64})
    fit = fit_of(big, ranks, room(size, ranks))
    assert not fit.fits
    assert words in advice(big, ranks, fit)
    assert advice(big, ranks, fit).endswith("; --no-check skips this check")


def test_fewer_ranks_alone_are_advised_where_nothing_else_helps() -> None:
    small = settings(batch={"micro": 1})
    fit = fit_of(small, 4, room(GB, 4))
    assert not fit.fits
    assert advice(small, 4, fit).startswith("--ranks 1 would help")


def test_the_micro_batch_is_the_one_that_ranks_take() -> None:
    assert fit_of(settings(batch={"sequences": 12, "micro": 3}), 2, room(GB)).micro == 3
    assert fit_of(settings(batch={"sequences": 12, "micro": 8}), 4, room(GB)).micro == 3


def test_a_gpu_takes_as_many_sequences_as_fit() -> None:
    gpt2 = settings(model={**WIDE, "layers": 12, "width": 768}, batch={"micro": "auto"})
    limits = [micro_limit(gpt2, value_bytes=2, gpu_bytes=size * GB) for size in (2, 24, 140)]
    assert limits[0] == 0
    assert 1 <= limits[1] < limits[2] <= 64


def test_a_load_for_the_network_needs_its_gradients() -> None:
    load = settings(traffic={"gradient_bytes": 10 * GB, "steps_per_second": 1.0})
    assert not fit_of(load, 1, room(20 * GB)).fits
    assert fit_of(load, 1, room(30 * GB)).fits
