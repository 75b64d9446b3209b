"""Nodes of earlier generations that are gone: the page lists them apart from those that are in progress."""

from __future__ import annotations

from railbed.model.events import GenerationStarted
from railbed.store.timeline import Timeline

RECENT_SECONDS = 30.0
"""A node without a sample for this long, before the end of the run so far, is silent."""


def earlier_nodes(timeline: Timeline) -> list[str]:
    """Return the nodes that the latest generation does without, and that are not sampled any more either."""
    generations = [event for event in timeline.events() if isinstance(event, GenerationStarted)]
    if len(generations) < 2:
        return []
    left = {node for generation in generations for node in generation.nodes} - {*generations[-1].nodes}
    return sorted(node for node in left if not _is_sampled(timeline, node))


def _is_sampled(timeline: Timeline, node: str) -> bool:
    since = timeline.end - RECENT_SECONDS
    return any(len(timeline.track(series, since).times) for series in timeline.series() if series.device == node)
