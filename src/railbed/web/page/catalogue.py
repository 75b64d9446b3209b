"""The series of a run by number, as the page asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from railbed.model.meters import SeriesKey
from railbed.present.charts import CHART_OF, CHARTS, Chart


@dataclass(slots=True)
class Catalogue:
    """The series of a run by number; a number never changes, so that answers can refer to it."""

    series: list[SeriesKey] = field(default_factory=list)
    _numbers: dict[SeriesKey, int] = field(default_factory=dict)

    def add(self, series: Iterable[SeriesKey]) -> None:
        """Number the series that are new; a meter that this version does not have is left out."""
        for identity in series:
            if identity not in self._numbers and identity.meter in CHART_OF:
                self._numbers[identity] = len(self.series)
                self.series.append(identity)

    def of(self, chart: Chart) -> list[int]:
        """Return the numbers of a chart's series."""
        return [number for number, series in enumerate(self.series) if series.meter in chart.meters]

    def charts(self) -> list[Chart]:
        """Return the charts that have series."""
        present = {series.meter for series in self.series}
        return [chart for chart in CHARTS if present.intersection(chart.meters)]
