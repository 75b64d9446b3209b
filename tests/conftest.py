"""Options and requirements that all tests share."""

from __future__ import annotations

import os
from collections.abc import Generator

import pluggy
import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of what is tested.
settings.register_profile("railbed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("railbed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite expected results; look at the difference")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    """Turn the skip of a required kind of test into a failure: RAILBED_REQUIRE=ssh,shared or all."""
    outcome = yield
    report = outcome.get_result()
    required = {name for name in os.environ.get("RAILBED_REQUIRE", "").split(",") if name}
    marks = {mark.name for mark in item.iter_markers()}
    if report.skipped and (marks & required or "all" in required):
        report.outcome = "failed"
        report.longrepr = f"skipped, but RAILBED_REQUIRE={os.environ['RAILBED_REQUIRE']} requires it: {report.longrepr}"
