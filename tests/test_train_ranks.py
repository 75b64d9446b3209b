"""Training in real processes: the same step on any number of ranks, and the same bits after a kill."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
import torch

from railbed.train.progress.steps import IdleTimes
from railbed.train.spec import ResumeSource
from railbed.train.state.checkpoints import survey
from railbed.train.worker.hardware import processor_has
from tests.support.forked import fork_server
from tests.support.ports import free_port
from tests.support.ranks import Rank, Starter, losses, wait_for
from tests.support.smallmodel import recipe, write_tokens

pytestmark = [pytest.mark.whole, pytest.mark.xdist_group("ranks")]  # their server loads torch, and one run serves many

EVEN_LONG = recipe(steps=60, model={"dropout": 0.1}, batch={"micro": 6}, checkpoint={"steps": 10})
"""Long enough to be killed in the middle; with dropout, so that random numbers must continue as well."""

TOLERANCE = 5e-4
"""How far the loss of a step may be from that of fp32 when gradients travel in bf16."""


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokens(tmp_path_factory.mktemp("data") / "tokens")


@pytest.fixture
def starter(tmp_path: Path, tokens: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path, tokens)
    yield starter
    starter.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> list[float]:
    """Return the losses of twenty steps on one rank."""
    starter = Starter(tmp_path_factory.mktemp("alone"), tokens)
    (rank,) = starter.run(1, recipe(), checkpoints="")
    starter.close()
    return losses(rank)


def test_the_loss_falls(alone: list[float]) -> None:
    assert len(alone) == 20
    assert alone[-1] < alone[0] - 0.5


@pytest.mark.parametrize("shares", [(1, 1), (1, 1, 1), (3, 1), (1, 0)], ids=str)
def test_the_same_loss_on_any_ranks(starter: Starter, alone: list[float], shares: tuple[float, ...]) -> None:
    ranks = starter.run(len(shares), recipe(), shares=shares, checkpoints="")
    for rank in ranks:
        assert losses(rank) == pytest.approx(alone, rel=1e-5)
    samples = [
        tuple(message["samples"]) for rank in ranks for message in rank.messages_of("progress") if message["step"] == 3
    ]
    assert sorted(number for first, end in samples for number in range(first, end)) == list(range(24, 36))


def test_a_validation_that_a_failure_prevented_is_made_up_for(starter: Starter) -> None:
    """The state of step 10 was saved, but what was due after it was never reported."""
    wanted = recipe(evaluation={"every": 10}, checkpoint={"steps": 10})
    complete = starter.run(2, wanted)[0].messages_of("evaluation")
    shutil.rmtree(starter.folder / "node1" / "step-00000020")
    resumed = starter.run(2, wanted, resume=ResumeSource(step=10, rank=0), owes_evaluation=True)[0].messages_of(
        "evaluation"
    )
    assert [message["step"] for message in resumed] == [message["step"] for message in complete] == [10, 20]
    assert [message["validation_loss"] for message in resumed] == [message["validation_loss"] for message in complete]


def until_intruded(rank: Rank) -> None:
    rank.read(until=lambda message: message["kind"] == "intrusion")


def test_an_intruder_changes_nothing_and_is_reported(starter: Starter, alone: list[float]) -> None:
    """It has torch's own store client and tries from before the ranks meet: rank 1 comes when one attempt failed."""
    port, stop, output = free_port(), starter.folder / "enough", starter.folder / "achieved"
    with output.open("wb") as file:
        arguments = ["127.0.0.1", str(port), str(stop)]
        intruder = fork_server().fork("tests.support.intruder", arguments, file.fileno(), file.fileno())
    wait_for(lambda: output.read_bytes().startswith(b"begins\n"))
    ranks = starter.run(2, recipe(), checkpoints="", port=port, before_others=until_intruded)
    stop.touch()
    assert intruder.wait(30) == 0
    achieved = json.loads(output.read_bytes().splitlines()[-1])
    assert losses(ranks[0]) == pytest.approx(alone, rel=1e-5)
    assert set(achieved.values()) == {0}
    (message, *_) = ranks[0].messages_of("intrusion")
    assert message["address"] == "127.0.0.1"
    assert "was rejected" in message["sentence"]


def test_an_account_is_given_of_every_step(starter: Starter) -> None:
    ranks = starter.run(2, recipe(evaluation={"every": 10}), checkpoints="")
    (chosen,) = ranks[1].messages_of("chosen")
    assert (chosen["transport"], chosen["precision"], chosen["threads"], chosen["micro_batch"]) == (
        "gloo",
        "fp32",
        1,
        3,
    )
    for message in ranks[1].messages_of("progress"):
        parts = sum(value for key, value in message.items() if key.endswith("_seconds") and key != "step_seconds")
        assert parts == pytest.approx(message["step_seconds"])
        assert message["bytes_sent"] == message["bytes_reduced"] == 4 * chosen["parameters"]  # 2 (n - 1) / n is 1
        assert 0 < message["mfu"] < 1
        assert message["tokens_per_second"] * 2 == pytest.approx(message["global_tokens_per_second"])
    assert [message["step"] for message in ranks[0].messages_of("evaluation")] == [10, 20]
    assert (
        ranks[0].messages_of("evaluation")[-1]["validation_loss"]
        == ranks[1].messages_of("evaluation")[-1]["validation_loss"]
    )
    assert ranks[0].messages_of("alive")[0]["phase"] == "starting"


def test_ranks_with_little_memory_take_the_same_steps(tmp_path: Path, tokens: Path, alone: list[float]) -> None:
    """Rank 0 fails at once, in backward passes; rank 1 later, in the forward pass of sequences that fitted before."""
    limits = {"0": [(0, 6, 2)], "1": [(8, 3, 3)]}
    wanted = recipe(description=json.dumps(limits), batch={"micro": 6})
    starter = Starter(tmp_path, tokens, module="tests.support.small_memory_rank")
    try:
        ranks = starter.run(2, wanted, checkpoints="")
    finally:
        starter.close()
    for rank in ranks:
        assert losses(rank) == pytest.approx(alone, rel=1e-5)
    first, second = ([(m["before"], m["sequences"]) for m in rank.messages_of("micro_batch")] for rank in ranks)
    assert (first, second) == ([(6, 3), (3, 1)], [(6, 3)])
    step = ranks[1].messages_of("micro_batch")[0]["step"]
    assert step > 2
    sentence = f"cpu ran out of memory in step {step} with 6 sequences at a time; continues with 3"
    assert ranks[1].messages_of("micro_batch")[0]["sentence"] == sentence


def test_a_rank_without_memory_for_one_sequence_ends_with_advice(tmp_path: Path, tokens: Path) -> None:
    wanted = recipe(description=json.dumps({"0": [(0, 0, 0)]}))
    starter = Starter(tmp_path, tokens, module="tests.support.small_memory_rank")
    try:
        (rank,) = starter.start(1, wanted, checkpoints="")
        rank.read()
        assert rank.process.wait(30) == 1
    finally:
        starter.close()
    (error,) = rank.messages_of("error")
    assert error["sentence"] == "cpu is out of memory, even with one sequence of 16 tokens at a time"
    assert error["hint"].startswith("use --set gradient_checkpointing=true, shorter sequences (--set model.context=8)")
    assert error["refused"] is True


def test_a_rank_that_has_nothing_to_do_is_idle_while_the_other_computes(starter: Starter) -> None:
    busy, free = starter.run(2, recipe(model={"layers": 4, "width": 128}), shares=(1, 0), checkpoints="")
    idle = IdleTimes(2)
    waits_reported = [
        record
        for rank in (busy, free)
        for message in rank.messages_of("progress")
        for record in idle.receive("a", message["rank"], message)
    ]
    waits = {
        rank: median(record.value for record in waits_reported if record.labels["rank"] == rank) for rank in (0, 1)
    }
    works = median(message["forward_seconds"] + message["backward_seconds"] for message in busy.messages_of("progress"))
    assert len(waits_reported) == 2 * 20
    assert waits[0] == 0
    assert 0.5 * works < waits[1] < 1.5 * works


@pytest.mark.parametrize(
    ("ranks", "wire"),
    [
        pytest.param(1, "fp32", marks=pytest.mark.soak),
        pytest.param(3, "fp32", marks=pytest.mark.soak),  # `make test` resumes in fp16 with gradients in fp32, below
        (3, "bf16-feedback"),
    ],
)
def test_killed_and_resumed_is_bit_equal(starter: Starter, ranks: int, wire: str) -> None:
    wanted = {**EVEN_LONG, "wire": wire}
    complete = starter.run(ranks, wanted)
    expected = complete[0].messages_of("checkpoint")[-1]
    assert expected["step"] == 60
    assert {rank.messages_of("checkpoint")[-1]["hash"] for rank in complete} == {expected["hash"]}
    for rank in range(ranks):
        shutil.rmtree(starter.folder / f"node{rank}")
    killed = starter.start(ranks, wanted)
    killed[0].read(until=lambda message: message["kind"] == "checkpoint")
    for process in killed:
        process.kill()
    assert not killed[0].messages_of("rank_done")
    last = survey(starter.folder / "node0").good[0].step
    assert 10 <= last < 60
    resumed = starter.run(ranks, wanted, resume=ResumeSource(step=last, rank=0))
    assert resumed[-1].messages_of("resumed")[0]["step"] == last
    assert resumed[-1].messages_of("progress")[0]["step"] == last + 1
    assert {rank.messages_of("checkpoint")[-1]["hash"] for rank in resumed} == {expected["hash"]}
    assert losses(resumed[0]) == losses(complete[0])[last:]


def test_fp16_skips_and_resumes_like_an_uninterrupted_run(tmp_path: Path, tokens: Path) -> None:
    """Its loss scale begins so high that the first gradients overflow, and changes again later."""
    wanted = recipe(steps=30, precision="fp16", checkpoint={"steps": 10})
    starter = Starter(tmp_path, tokens, module="tests.support.half_rank")
    try:
        complete = starter.run(2, wanted)
        for rank in range(2):
            shutil.rmtree(starter.folder / f"node{rank}" / "step-00000030")
        resumed = starter.run(2, wanted, resume=ResumeSource(step=20, rank=1))
    finally:
        starter.close()
    scales = [message["loss_scale"] for message in complete[1].messages_of("progress")]
    skipped = [message["step"] for message in complete[0].messages_of("progress") if message["gradient_norm"] is None]
    assert skipped[0] == 1
    assert 3 <= len(skipped) < 20
    assert max(scales[len(skipped) + 1 :]) > min(scales)
    assert losses(resumed[0]) == losses(complete[0])[20:]
    assert len({rank.messages_of("checkpoint")[-1]["hash"] for rank in (*complete, *resumed)}) == 1


def test_a_processor_without_bf16_computes_in_fp32_and_reports_it(starter: Starter) -> None:
    if processor_has(torch.bfloat16):
        pytest.skip("this processor has bf16")
    (rank,) = starter.run(1, recipe(steps=2, precision="bf16"), checkpoints="")
    assert rank.messages_of("chosen")[0]["precision"] == "fp32"
    assert rank.messages_of("notice")[0]["sentence"].endswith("has no bf16: it computes in fp32")


@pytest.mark.parametrize("wire", [pytest.param("bf16", marks=pytest.mark.soak), "bf16-feedback"])
def test_bf16_on_the_wire_halves_the_bytes_and_keeps_the_loss(starter: Starter, wire: str) -> None:
    precise, half = (starter.run(2, recipe(steps=30, wire=form), checkpoints="")[0] for form in ("fp32", wire))
    sent = [message["bytes_sent"] for message in half.messages_of("progress")]
    full = precise.messages_of("progress")[0]["bytes_sent"]
    assert set(sent[:-1]) == {full // 2}
    assert sent[-1] == (full if wire == "bf16-feedback" else full // 2)  # the state of the last step is saved
    assert losses(half) == pytest.approx(losses(precise), abs=TOLERANCE)
    assert losses(half) != losses(precise)


def test_a_node_that_comes_back_gets_the_state(starter: Starter) -> None:
    starter.run(2, recipe(steps=10, checkpoint={"steps": 10}))
    shutil.rmtree(starter.folder / "node0")
    starter.run(2, recipe(steps=12), resume=ResumeSource(step=10, rank=1))
    assert [good.step for good in survey(starter.folder / "node0").good] == [12, 10]


def test_a_damaged_state_is_not_loaded(starter: Starter) -> None:
    starter.run(1, recipe(steps=10, checkpoint={"steps": 5}))
    file = starter.folder / "node0" / "step-00000010" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-100] ^= 4
    file.write_bytes(data)
    (rank,) = starter.start(1, recipe(), resume=ResumeSource(step=10, rank=0))
    rank.read()
    assert rank.process.wait(30) == 1
    (error,) = rank.messages_of("error")
    assert "model.safetensors has changed since it was written" in error["sentence"]
    assert [good.step for good in survey(starter.folder / "node0").good] == [5]


def test_a_full_disk_does_not_end_training(tmp_path: Path, tokens: Path) -> None:
    starter = Starter(tmp_path, tokens, module="tests.support.small_files_rank")
    try:
        (rank,) = starter.run(1, recipe(checkpoint={"steps": 10}))
    finally:
        starter.close()
    assert [message["step"] for message in rank.messages_of("checkpoint_failed")] == [10, 20]
    sentence = rank.messages_of("checkpoint_failed")[0]["sentence"]
    assert "the checkpoint of step 10 was not saved" in sentence
    assert "training continues, there is no checkpoint yet" in sentence
    assert len(losses(rank)) == 20
    assert [path.name for path in (starter.folder / "node0").iterdir()] == []


def test_a_lost_rank_is_reported_as_such(starter: Starter) -> None:
    """By the connection that is gone: the time-out is longer than anybody waits here."""
    first, second = starter.start(2, recipe(steps=100_000), checkpoints="", timeout_seconds=3600.0)
    first.read(until=lambda message: message["kind"] == "progress")
    second.kill()
    first.read()
    assert first.process.wait(30) == 1
    (error,) = first.messages_of("error")
    assert error["peer"] is True
    assert "rank 0 lost another rank after step" in error["sentence"]


def test_a_rank_that_does_not_come_is_named(starter: Starter) -> None:
    first, second = starter.start(2, recipe(), checkpoints="", timeout_seconds=4.0)
    second.kill()
    first.read()
    (error,) = first.messages_of("error")
    assert error["sentence"] == "rank 1 did not join within 4 s"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_rank(starter: Starter, number: int) -> None:
    (rank,) = starter.start(1, recipe(steps=100_000), checkpoints="")
    rank.read(until=lambda message: message["kind"] == "progress")
    rank.kill(number)  # waits for the end


def test_a_rank_does_not_outlive_its_starter(starter: Starter) -> None:
    script = Path(__file__).parent / "support" / "abandon.py"
    subprocess.run([sys.executable, script, starter.folder, starter.tokens], check=True)
    number = int((starter.folder / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{number}").exists())


def test_traffic_sends_what_it_should(starter: Starter) -> None:
    load = recipe(steps=5, traffic={"gradient_bytes": 10_000_000, "steps_per_second": 20.0})
    ranks = starter.run(2, load, checkpoints="")
    assert [message["bytes_reduced"] for message in ranks[1].messages_of("progress")] == [10_000_000] * 5
    assert ranks[0].messages_of("rank_done")[0]["seconds"] >= 0.2
