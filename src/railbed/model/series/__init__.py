"""Time series: what is counted or measured on a device over time.

A sample is a whole number: a counter as the device counts it, in the unit of its meter, or a gauge divided by its
scale. Only readers turn counters into rates. A value that a device does not have is absent, never zero.
"""

from railbed.model.series.meters import METERS, Meter
from railbed.model.series.sample import MISSING, Sample, Series

__all__ = ["METERS", "MISSING", "Meter", "Sample", "Series"]
