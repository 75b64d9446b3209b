"""The text that Prometheus scrapes: names, labels, counters that wrap, devices that fall silent."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.monitored import layouts, monitored_cluster, sample

from railbed.model.cluster import Cluster, Node
from railbed.model.events import GenerationStarted
from railbed.model.meters import METERS, MISSING, Meter, Sample, SeriesKey
from railbed.model.record import Measurement
from railbed.web.metrics.latest import Latest, is_wrap
from railbed.web.metrics.names import METRICS, MetricLabels, metric_of
from railbed.web.metrics.run import Exporter
from railbed.web.metrics.status import TrainingValues
from railbed.web.metrics.text import MetricsText

Labelled = dict[tuple[str, frozenset[tuple[str, str]]], float]
UNITS_IN_NAMES = ("_us", "_ms", "_mhz", "_percent", "_kbytes", "_gb")


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def parsed(text: str) -> Labelled:
    """Read the text as Prometheus' own library for Python does."""
    return {
        (item.name, frozenset(item.labels.items())): item.value
        for family in text_string_to_metric_families(text)
        for item in family.samples
    }


def at(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_names_are_unique_and_conventional() -> None:
    names = [metric.name for metric in METRICS.values()]
    assert len(set(names)) == len(names) == len(METERS)
    for metric in METRICS.values():
        assert re.fullmatch(r"railbed_[a-z][a-z0-9_]*[a-z0-9]", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not metric.family.endswith(UNITS_IN_NAMES)
        assert metric.help.endswith(".")


@pytest.mark.parametrize(
    ("meter", "name", "stored", "value"),
    [
        ("rdma_rx_bytes", "railbed_rdma_rx_bytes_total", 1 << 40, float(1 << 40)),
        ("pause_rx_us", "railbed_pause_rx_seconds_total", 1_500_001, 1.500001),
        ("cpu_busy_us", "railbed_cpu_busy_seconds_total", 29, 2.9e-05),
        ("gpu_busy", "railbed_gpu_busy_ratio", 29, 0.29),
        ("gpu_power", "railbed_gpu_power_watts", 412_345, 412.345),
        ("gpu_temperature", "railbed_gpu_temperature_celsius", 71, 71.0),
        ("gpu_clock", "railbed_gpu_clock_hertz", 1410, 1.41e9),
        ("memory_used_bytes", "railbed_memory_used_bytes", 5, 5.0),
        ("rdma_timeouts", "railbed_rdma_timeouts_total", 5, 5.0),
    ],
)
def test_values_have_base_units(meter: str, name: str, stored: int, value: float) -> None:
    cluster = Cluster(name="c", nodes={"a": Node(host="a")})
    latest = Latest({"a": 5.0})
    latest.take(Sample("a", 0.0, (SeriesKey("a", meter),), [stored]))
    assert parsed(MetricsText(MetricLabels(cluster)).write(latest.current())) == {at(name, node="a"): value}


def test_a_new_meter_needs_no_entry_anywhere() -> None:
    meter = Meter("fan_speed_us", "us", "made up", "gauge", scale=0.5)
    assert (metric_of(meter).name, metric_of(meter).factor) == ("railbed_fan_speed_seconds", 5e-7)


def test_labels_are_names_of_the_cluster_file() -> None:
    labels = MetricLabels(monitored_cluster())
    assert labels.of(SeriesKey("node1", "pause_rx_us", "eth1", "3")) == {
        "node": "node1",
        "port": "eth1",
        "rail": "rail1",
        "priority": "3",
    }
    assert labels.of(SeriesKey("node1", "net_rx_bytes", "mgmt0")) == {"node": "node1", "port": "mgmt0"}
    assert labels.of(SeriesKey("node1", "cpu_busy_us")) == {"node": "node1"}
    assert labels.of(SeriesKey("nexus", "queue_depth_bytes", "Ethernet1/4", "3")) == {
        "switch": "nexus",
        "port": "Ethernet1/4",
        "node": "node2",
        "rail": "rail1",
        "queue": "3",
    }
    assert labels.of(SeriesKey("nexus", "switch_rx_bytes", "Ethernet1/30")) == {
        "switch": "nexus",
        "port": "Ethernet1/30",
    }


def test_the_text_is_what_the_library_would_write() -> None:
    """Every series of a cluster is there once, with its help and type, and reads back as its value."""
    cluster = monitored_cluster()
    latest, text = Latest(dict.fromkeys(layouts(cluster), 5.0)), MetricsText(MetricLabels(cluster))
    expected: Labelled = {}
    for number, layout in enumerate(layouts(cluster).values()):
        values = {series: 1000 * number + index for index, series in enumerate(layout)}
        latest.take(sample(layout, values))
        for series, value in values.items():
            metric = METRICS[series.meter]
            expected[metric.name, frozenset(MetricLabels(cluster).of(series).items())] = value * metric.factor
    written = text.write(latest.current())
    assert parsed(written) == pytest.approx(expected)
    for family in text_string_to_metric_families(written):
        metric = next(metric for metric in METRICS.values() if metric.family == family.name)
        assert (family.documentation, family.type) == (metric.help, metric.kind)


@pytest.mark.parametrize("port", ['e"t\\h\n0 {} 7', "a\x0bb\x0cc\x1cd\x85e\u2028f\r", "# TYPE x", "x\udc80"])
def test_foreign_text_in_a_port_name_is_escaped(port: str) -> None:
    cluster = Cluster(name="c", nodes={"a": Node(host="a")})
    latest = Latest({"a": 5.0})
    latest.take(
        Sample("a", 0.0, (SeriesKey("a", "net_rx_bytes", port), SeriesKey("a", "net_tx_bytes", "eth0")), [3, 4])
    )
    assert sorted(parsed(MetricsText(MetricLabels(cluster)).write(latest.current())).values()) == [3.0, 4.0]


def test_a_missing_value_is_absent_not_zero() -> None:
    cluster = monitored_cluster()
    layout = layouts(cluster)["node1"]
    latest, text = Latest({"node1": 5.0}), MetricsText(MetricLabels(cluster))
    latest.take(sample(layout, {SeriesKey("node1", "net_rx_bytes", "eth0"): 7}))
    written = text.write(latest.current())
    assert parsed(written) == {at("railbed_net_rx_bytes_total", node="node1", port="eth0", rail="rail0"): 7.0}
    assert written.count("# TYPE") == 1


@pytest.mark.parametrize(
    ("before", "after", "growth", "wraps"),
    [
        ((1 << 32) - 1, 0, 1, True),
        ((1 << 32) - 10, 90, 50, True),
        ((1 << 32) - 10, 91, 50, False),
        ((1 << 32) - 1, 0, 0, False),
        (3_900_000_000, 0, 1_000_000, False),
        (1000, 0, 10, False),
        (1 << 33, 5, 1 << 40, False),
    ],
)
def test_wrap_or_reset(before: int, after: int, growth: int, wraps: bool) -> None:
    assert is_wrap(before, after, 32, growth) is wraps


def values_of(readings: list[int], meter: str = "net_carrier_changes") -> list[float]:
    cluster = Cluster(name="c", nodes={"a": Node(host="a")})
    latest, text = Latest({"a": 5.0}), MetricsText(MetricLabels(cluster))
    layout = (SeriesKey("a", meter, "eth0"),)
    written: list[float] = []
    for reading in readings:
        latest.take(Sample("a", 0.0, layout, [reading]))
        written += parsed(text.write(latest.current())).values()
    return written


def test_a_narrow_counter_keeps_growing_when_it_wraps() -> None:
    top = 1 << 32
    assert values_of([top - 9, top - 2, 3, 5]) == [top - 9, top - 2, top + 3, top + 5]
    half = top // 2
    assert values_of([0, half, 1, half, 2]) == [0, half, top + 1, top + half, 2 * top + 2]


def test_a_reset_starts_again() -> None:
    top = 1 << 32
    assert values_of([top - 9, top - 2, 3, 1, 2]) == [top - 9, top - 2, top + 3, 1, 2]
    assert values_of([3_900_000_000, 3_900_000_100, 4, 5]) == [3_900_000_000, 3_900_000_100, 4, 5]


def test_what_fell_while_a_device_was_silent_was_reset() -> None:
    clock, top = Clock(), 1 << 32
    latest, layout = Latest({"a": 5.0}, clock), (SeriesKey("a", "net_carrier_changes", "eth0"),)
    for reading in (top - 9, top - 2):
        latest.take(Sample("a", 0.0, layout, [reading]))
    clock.now += 60.0
    latest.take(Sample("a", 0.0, layout, [3]))
    assert latest.current()["a"].wrapped == {}


def test_a_wide_counter_and_a_gauge_are_as_read() -> None:
    assert values_of([1 << 62, 0, 7], "net_rx_bytes") == [float(1 << 62), 0.0, 7.0]
    assert values_of([9, 4], "qdisc_backlog_bytes") == [9.0, 4.0]


def test_wraps_survive_a_gap_and_a_new_layout() -> None:
    top = 1 << 32
    cluster = Cluster(name="c", nodes={"a": Node(host="a")})
    latest, text = Latest({"a": 5.0}), MetricsText(MetricLabels(cluster))
    series, other = SeriesKey("a", "net_carrier_changes", "eth0"), SeriesKey("a", "net_carrier_changes", "eth1")
    for layout, values in (
        ((series,), [top - 4]),
        ((series,), [top - 1]),
        ((series,), [1]),
        ((series,), [MISSING]),
        ((other, series), [8, 2]),
        ((other, series), [9, 3]),
    ):
        latest.take(Sample("a", 0.0, layout, values))
    assert parsed(text.write(latest.current())) == {
        at("railbed_net_carrier_changes_total", node="a", port="eth0"): top + 3,
        at("railbed_net_carrier_changes_total", node="a", port="eth1"): 9.0,
    }


def test_a_silent_device_is_down_and_has_no_values() -> None:
    clock = Clock()
    cluster = monitored_cluster()
    exporter = Exporter(cluster, interval=1.0, switch_interval=5.0, clock=clock)
    devices = layouts(cluster)
    for layout in devices.values():
        exporter.take(sample(layout, default=1))
    assert {value for (name, _), value in parsed(exporter.text()).items() if name == "railbed_up"} == {1.0}
    clock.now += 6.0
    exporter.take(sample(devices["node2"], default=2))
    metrics = parsed(exporter.text())
    assert metrics[at("railbed_up", device="node1", kind="node")] == 0.0
    assert metrics[at("railbed_up", device="node2", kind="node")] == 1.0
    assert metrics[at("railbed_up", device="nexus", kind="switch")] == 1.0
    assert metrics[at("railbed_sample_age_seconds", device="node1", kind="node")] == 6.0
    nodes = {dict(labels).get("node") for name, labels in metrics if name == "railbed_cpu_busy_seconds_total"}
    assert nodes == {"node2"}


def test_a_device_that_never_answered_is_down_without_an_age() -> None:
    metrics = parsed(Exporter(monitored_cluster(), interval=1.0, switch_interval=5.0).text())
    assert metrics[at("railbed_up", device="node1", kind="node")] == 0.0
    assert "railbed_sample_age_seconds" not in {name for name, _ in metrics}


def record(name: str, value: float, rank: int, step: int, node: str = "") -> Measurement:
    labels: dict[str, str | int] = {"rank": rank, "node": node or f"node{rank + 1}", "step": step}
    return Measurement(name=name, value=value, unit="", labels=labels)


def test_measures_of_a_training() -> None:
    cluster = monitored_cluster()
    exporter = Exporter(cluster, interval=1.0, switch_interval=5.0)
    exporter.training.begin("20260101-000000-train")
    for measurement in (
        record("loss", 2.5, 0, 7),
        record("step_seconds", 0.5, 0, 7),
        record("step_seconds", 0.25, 1, 8),
        record("mfu", 0.5, 1, 8),
        record("data_seconds", 0.5, 2, 8, node="\ud800"),
    ):
        exporter.training.take(measurement)
    metrics = parsed(exporter.text())
    assert metrics[at("railbed_training_loss", node="node1", rank="0")] == 2.5
    assert metrics[at("railbed_training_step_seconds", node="node2", rank="1")] == 0.25
    assert metrics[at("railbed_training_step", run="20260101-000000-train")] == 8.0
    assert not any("mfu" in name for name, _ in metrics)


def test_the_measures_end_with_the_training_and_with_a_generation() -> None:
    values = TrainingValues()
    values.begin("r")
    values.take(record("step_seconds", 0.25, 1, 8))
    values.take(GenerationStarted())
    assert values.values() == {}
    values.take(record("step_seconds", 0.25, 0, 9))
    values.begin("")
    assert (values.values(), values.step()) == ({}, None)
