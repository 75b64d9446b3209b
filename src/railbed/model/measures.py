"""Every measurement that a verb can emit: its name, unit, labels and meaning.

A unit belongs to a name and never changes; what was measured, where and how is in the labels.
`docs/reference/records.md` lists them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railbed.model.series import METERS, Meter


@dataclass(frozen=True, slots=True)
class Measure:
    """The definition of a measurement."""

    name: str
    unit: str
    meaning: str
    labels: tuple[str, ...]
    title: str = ""
    """The name as shown to people."""


_STEP = ("step", "rank", "node")
_TRIAL = ("test", "tool", "version", "trial", "repeat", "size", "stat", "arm")
_ENDS = ("pair", "direction", "from", "to", "rail", "pattern", "streams", "memory", "traffic_class")
_LINK = (*_TRIAL, *_ENDS)
_DISK = (*_TRIAL, "node", "operation", "direct")
_COST = (*_LINK, "node")
_ALL = ("test", "tool", "version", "trial", "repeat", "engine", "over", "size", "ranks", "nodes", "iterations", "node")
_ENGINE = ("engine", "bytes", "rank", "node")
_COMPARED = ("comparison", "measure")

_OF_TRAINING = (
    Measure("loss", "nat", "cross-entropy of the training batch, from rank 0", _STEP),
    Measure("validation_loss", "nat", "cross-entropy of held-out text after a step, from rank 0", _STEP),
    Measure("perplexity", "1", "of held-out text, before and after fine-tuning", ("split", "when")),
    Measure("learning_rate", "1", "the learning rate of a step, from rank 0", _STEP),
    Measure("gradient_norm", "1", "the norm of the gradient before clipping, from rank 0", _STEP),
    Measure("loss_scale", "1", "factor of the loss in fp16, halved when gradients overflow; from rank 0", _STEP),
    Measure("tokens", "token", "tokens of a step's documents, without padding, from rank 0", _STEP),
    Measure("trained_tokens", "token", "those of them that the model learns to write, from rank 0", _STEP),
    Measure("tokens_per_second", "token/s", "tokens of all ranks per second, from rank 0", _STEP),
    Measure("mfu", "1", "share of the device's peak operations that the model used", _STEP),
    Measure("step_seconds", "s", "the whole step", _STEP),
    Measure("data_seconds", "s", "reading the batch", _STEP),
    Measure("forward_seconds", "s", "forward pass", _STEP),
    Measure("backward_seconds", "s", "backward pass, without waiting for the network", _STEP),
    Measure("allreduce_exposed_seconds", "s", "waiting for the network after the backward pass", _STEP),
    Measure("optimiser_seconds", "s", "updating the weights", _STEP),
    Measure("other_seconds", "s", "the rest of a step", _STEP),
    Measure("idle_seconds", "s", "waiting for slower ranks", _STEP),
    Measure("bytes_sent", "byte", "gradients that a rank sent", _STEP),
    Measure("peak_memory_bytes", "byte", "peak memory of a rank", _STEP),
    Measure("sequences", "sequence", "sequences of the batch that a rank learned from", (*_STEP, "first")),
    Measure("allreduce_trial_seconds", "s", "an all-reduce while an engine was tested", _ENGINE),
    Measure("allreduce_trial_rate", "byte/s", "the rate of that all-reduce", _ENGINE),
    Measure("gradient_bytes", "byte", "gradients that had to leave a node", ("node",)),
    Measure("rdma_bytes", "byte", "bytes that a rail sent over RDMA, at least and at most", ("node", "rail", "bound")),
    Measure("tcp_bytes", "byte", "bytes that ranks sent over TCP, at least and at most", ("node", "rail", "bound")),
)
_OF_BENCH = (
    Measure("bandwidth", "Gb/s", "payload from one node to another", _LINK, "bandwidth"),
    Measure("bandwidth_peak", "Gb/s", "the highest rate seen during the measurement", _LINK),
    Measure("message_rate", "1/s", "messages per second", _LINK),
    Measure("half_round_trip", "us", "half the time to a node and back", _LINK, "half a round trip"),
    Measure("round_trip", "us", "the time to a node and back", _LINK, "a whole round trip"),
    Measure("samples", "1", "single times that the percentiles of a latency test come from", _LINK),
    Measure("retransmits", "1", "TCP segments that were sent again", _LINK),
    Measure("lost_messages", "1", "messages without an answer", _LINK),
    Measure("disk_bandwidth", "GB/s", "bytes read from or written to a disk", _DISK, "disk bandwidth"),
    Measure("disk_operations", "1/s", "disk operations per second", _DISK, "disk operations"),
    Measure("disk_latency", "us", "the time of one disk operation", _DISK),
    Measure("collective_time", "us", "one collective operation over all ranks", _ALL),
    Measure("algorithm_bandwidth", "GB/s", "size of the data divided by that time", _ALL, "algorithm bandwidth"),
    Measure("bus_bandwidth", "GB/s", "the rate that a link had to carry", _ALL, "bus bandwidth"),
    Measure("cpu_seconds", "s", "processor time of a node during a trial", _COST),
    Measure("cpu_seconds_per_gb", "s/GB", "processor time per gigabyte of payload", _COST),
    Measure(
        "arm_value", "as measured", "the result of one arm of an experiment", (*_COMPARED, "arm", "test", "repeat")
    ),
    Measure(
        "arm_mean",
        "as measured",
        "the mean of an arm's results that were compared",
        (*_COMPARED, "arm", "test", "repeats"),
    ),
    Measure(
        "difference",
        "as measured",
        "B minus A: the mean and its interval",
        (*_COMPARED, "a", "b", "test_a", "test_b", "repeats", "bound"),
    ),
)


def measure_of(meter: Meter) -> Measure:
    """Return the measurement that a meter's samples become: of a counter its rate, of a gauge its value."""
    labels = ("device", "port", "part", "stat")
    if meter.kind == "gauge":
        return Measure(meter.name, meter.unit, meter.meaning, labels)
    return Measure(f"{meter.name}_rate", f"{meter.unit}/s", f"{meter.meaning}, per second", labels)


_OF_WATCH = tuple(measure_of(meter) for meter in METERS.values() if meter.part != "rank")
"""What `watch --json` prints; the training's own are among those above."""

MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in (*_OF_TRAINING, *_OF_BENCH, *_OF_WATCH)}
