"""Time series of a run: rows of 64-bit values, written one by one, and compressed minute by minute behind the writer.

Read `writer.py` first.

In the run's folder, `series` has, for each device and list of series (a table):

    0001.layout           the device and its series, written before the first row
    0001-000007.rows      the rows of a minute: time, values, checksum
    0001.chunks           earlier minutes, compressed, each with its roll-up
    0001.hours            the roll-ups of complete hours

Readers need no lock. They ignore what is incomplete or damaged, so they can read while a run is written and after its
process was killed. A minute moves from rows to a chunk in this order: the chunk is written, then the rows are removed;
both have the same number, and readers ignore rows whose chunk they have.
"""

from railbed.store.series.rates import Rollup, Samples, Span, apply_scale, rates
from railbed.store.series.reader import SeriesReader
from railbed.store.series.writer import SeriesWriter

__all__ = ["Rollup", "Samples", "SeriesReader", "SeriesWriter", "Span", "apply_scale", "rates"]
