"""Which packets a class of a Nexus has, by the meaning that its release gives to match-all."""

from __future__ import annotations

import pytest

from railbed.parsing.nexus.qos import ClassMap


@pytest.mark.parametrize(
    ("matches", "of_any", "of_all"),
    [
        (["dscp 26"], True, True),
        (["dscp 24-31", "dscp 26,48"], True, True),
        (["dscp 26", "dscp 48"], True, False),
        (["dscp 26", "cos 3"], True, None),
        (["dscp 26", "access-group name ROCE"], True, None),
        (["dscp 24", "access-group name ROCE"], None, False),
        (["access-group name ROCE"], None, None),
        (["cos 3"], False, False),
        ([], False, False),
    ],
)
def test_which_packets_of_a_dscp_are_in_a_class(matches: list[str], of_any: bool | None, of_all: bool | None) -> None:
    either = ClassMap(type="qos", name="ROCE", matches=tuple(matches))
    both = ClassMap(type="qos", name="ROCE", match_all=True, matches=tuple(matches))
    assert either.includes(26, conjunctive=True) is of_any
    assert both.includes(26, conjunctive=False) is of_any
    assert both.includes(26, conjunctive=True) is of_all
    assert both.includes(26, conjunctive=None) is (of_any if of_any == of_all else None)
