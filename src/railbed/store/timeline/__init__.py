"""A run on one time axis: its series, the training's own measurements, and marks for what happened.

Read `timeline.py` first.

Page, terminal, report and diagnose read a run through this, whether it is in progress or of last week.
"""

from railbed.store.timeline.data import Drawn, Mark, MarkKind, StepAt, Track
from railbed.store.timeline.timeline import Timeline

__all__ = ["Drawn", "Mark", "MarkKind", "StepAt", "Timeline", "Track"]
