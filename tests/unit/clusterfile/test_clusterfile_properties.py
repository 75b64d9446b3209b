"""What must hold for any cluster and any text."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.clusters import clusters

from railbed.clusterfile import difference, dumps, loads, rewrite
from railbed.errors import ClusterFileError
from railbed.model.cluster import Cluster

ROOT = Path(__file__).parent.parent.parent.parent
TEXTS = [path.read_text() for path in sorted((ROOT / "examples").glob("*.yaml"))]
SETTINGS = settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FEWER = settings(SETTINGS, max_examples=20)
PIECES = [
    "",
    "\n",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "*a",
    "&a ",
    "!!int ",
    "? ",
    "|\n",
    "%",
    "---\n",
    "\t",
    "\0",
    "<<",
    "'",
    '"',
]
ODD = [
    "\x85",
    "\u2028",
    "\ufeff",
    "\ud800",
    "9" * 5000,
    ".inf",
    "0o9",
    "1:30",
    "~",
    "null",
    "yes",
    "1e999",
    "2024-01-01",
]


def survives(text: str) -> None:
    with contextlib.suppress(ClusterFileError):
        assert isinstance(loads(text, name="cluster.yaml"), Cluster)


@SETTINGS
@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    survives(text)


@SETTINGS
@given(st.lists(st.sampled_from([*PIECES, *ODD, "name: x\n", "nodes:", " a", "  host: h", "\n  "]), max_size=30))
def test_any_pieces_of_yaml(pieces: list[str]) -> None:
    survives("".join(pieces))


@settings(SETTINGS, max_examples=80)
@given(st.sampled_from(TEXTS), st.data())
def test_real_files_cut_and_bent(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 30))
    survives(text[:at] + data.draw(st.sampled_from([*PIECES, *ODD]) | st.text(max_size=10)) + text[at + gone :])


@SETTINGS
@given(st.sampled_from(TEXTS), st.data())
def test_real_values_replaced(text: str, data: st.DataObject) -> None:
    """Put something odd in the place of one value: the file stays YAML, so the later stages meet it."""
    lines = text.splitlines()
    at = data.draw(st.sampled_from([number for number, line in enumerate(lines) if ": " in line]))
    before, _, after = lines[at].rpartition(": ")
    odd = data.draw(
        st.sampled_from([*ODD, "[]", "{}", "[a]", "{a: b}", "-1", "true", '"\\0"', "''", "!!binary aGk=", "x" * 300])
    )
    lines[at] = f"{before}: {odd}{'}' if after.endswith('}') else ''}"
    survives("\n".join(lines))


@FEWER
@given(clusters())
def test_what_is_written_is_read(cluster: Cluster) -> None:
    assert loads(dumps(cluster), name="x") == cluster


@FEWER
@given(clusters(), clusters())
def test_difference_is_empty_only_for_equals(before: Cluster, after: Cluster) -> None:
    assert difference(before, before) == []
    assert bool(difference(before, after)) == (before != after)
    assert len(difference(before, after)) == len(difference(after, before))


@FEWER
@given(clusters(), clusters())
def test_rewriting_any_file_to_any_other(before: Cluster, after: Cluster) -> None:
    changed = rewrite("# mine\n" + dumps(before), after)
    assert loads(changed, name="x") == after
    assert changed.startswith("# mine\n"), "written from scratch"


@FEWER
@given(st.sampled_from(TEXTS), clusters())
def test_rewriting_settings_keeps_every_comment(text: str, other: Cluster) -> None:
    settings_of = {"name": other.name, "login": other.login, "policy": other.policy, "training": other.training}
    after = loads(text, name="x").model_copy(update=settings_of)
    changed = rewrite(text, after)
    assert loads(changed, name="x") == after
    lines = changed.splitlines()
    assert [line for line in text.splitlines() if line.strip().startswith("#") and line not in lines] == []


@FEWER
@given(st.sampled_from(list(itertools.permutations(TEXTS, 2))))
def test_rewriting_one_example_to_another(pair: tuple[str, str]) -> None:
    before, after = pair
    assert loads(rewrite(before, loads(after, name="x")), name="x") == loads(after, name="x")
    assert rewrite(before, loads(before, name="x")) == before
