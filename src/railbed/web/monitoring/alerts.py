"""The form of an alert, with the cases that test it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

INTERVAL_SECONDS = 5
"""How often Prometheus scrapes and evaluates rules."""
STEP_SECONDS = 10
"""The time between two values in a case: promtool takes its time for each."""
JUDGED_SECONDS = 300
"""When a case is judged, in seconds after its start."""


class Case(NamedTuple):
    """Series that must make an alert fire, or must not although they come close."""

    title: str
    series: Mapping[str, str]
    """Values in promtool's notation, by series."""
    fires: Mapping[str, str] | None
    """The labels that the alert then has; None if it must not fire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert rule of Prometheus."""

    name: str
    expr: str
    hold: str = "0s"
    """How long the expression must hold."""
    severity: Literal["warning", "critical"] = "warning"
    summary: str
    """One sentence; labels are written as {{ $labels.node }}."""
    action: str
    """What it means, and the next step."""
    cases: tuple[Case, ...]


_STEPS = JUDGED_SECONDS // STEP_SECONDS


def fires(title: str, labels: Mapping[str, str], *series: Mapping[str, str]) -> Case:
    """Return a case in which an alert fires, with these labels."""
    return Case(title, _merge(series), labels)


def near_miss(title: str, *series: Mapping[str, str]) -> Case:
    """Return a case in which an alert must not fire."""
    return Case(title, _merge(series), None)


def grew(title: str, labels: Mapping[str, str], series: str) -> tuple[Case, Case]:
    """Return the cases of a counter that should not grow: an alert fires when it does, and not long after."""
    return fires(title, labels, jumping(series, 1)), near_miss(f"{title}, long ago", constant(series, 5))


def growing(series: str, per_second: float) -> dict[str, str]:
    """Return a counter that grows steadily."""
    return {series: f"0+{per_second * STEP_SECONDS:.10g}x{_STEPS}"}


def constant(series: str, value: float) -> dict[str, str]:
    """Return a series that does not change."""
    return {series: f"{value:.10g}x{_STEPS}"}


def jumping(series: str, by: float, *, before: float = 40) -> dict[str, str]:
    """Return a series that changes once, a minute before the alert is judged."""
    return {series: f"{before:.10g}x{_steps_before(60)} {before + by:.10g}x{_STEPS}"}


def lately(series: str, seconds: int, per_second: float) -> dict[str, str]:
    """Return a counter that has grown only since some seconds before the alert is judged."""
    step = per_second * STEP_SECONDS
    return {series: f"0x{_steps_before(seconds)} {step:.10g}+{step:.10g}x{_STEPS}"}


def changed_series(series: str, seconds: int, before: float, after: float) -> dict[str, str]:
    """Return a series that has another value since some seconds before the alert is judged."""
    return {series: f"{before:.10g}x{_steps_before(seconds)} {after:.10g}x{_STEPS}"}


def ended_series(series: str, seconds: int) -> dict[str, str]:
    """Return a series that was zero and does not exist since some seconds before the alert is judged."""
    return {series: f"0x{_steps_before(seconds)} stale"}


def _steps_before(seconds: int) -> int:
    return (JUDGED_SECONDS - seconds) // STEP_SECONDS


def _merge(series: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    return {name: values for part in series for name, values in part.items()}
