"""Changes in a file that a person wrote: everything else stays exactly as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railbed.clusterfile import loads, rewrite
from railbed.errors import ClusterFileError
from railbed.model.cluster import Cluster

TYPED = """\
# our cluster
name:   'pair'   # the name

policy: {pfc: no, dscp: 0x18}   # by hand
rails:
    rail0: {subnet: "10.1.0.0/24"}

nodes:
  # the left one
  n1:
    host: 10.0.0.1      # rack 3
    ports:
    # front
    - {netdev: eth1, rail: rail0, address: 10.1.0.1}   # port A
    # back
    - netdev: eth2
      rail: rail0
      address: 10.1.0.11

  # the right one
  n2: {host: 10.0.0.2, ports: [{netdev: eth1, rail: rail0, address: 10.1.0.2}]}
# the end
"""


def changed(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """Return the text rewritten to what a change of its values gives."""
    values = loads(text, name="x").model_dump(mode="json", exclude_defaults=True)
    change(values)
    after = Cluster.model_validate(values)
    result = rewrite(text, after)
    assert loads(result, name="x") == after
    return result


def assert_lines(before: str, after: str, *, gone: list[str], new: list[str]) -> None:
    was, now = before.splitlines(), after.splitlines()
    assert [line for line in was if line not in now] == gone
    assert [line for line in now if line not in was] == new


def test_nothing_changed() -> None:
    assert rewrite(TYPED, loads(TYPED, name="x")) == TYPED


def test_a_value_keeps_its_comment() -> None:
    result = changed(TYPED, lambda values: values["nodes"]["n1"].update(host="10.0.0.7"))
    assert_lines(TYPED, result, gone=["    host: 10.0.0.1      # rack 3"], new=["    host: 10.0.0.7      # rack 3"])


def test_the_first_value() -> None:
    result = changed(TYPED, lambda values: values.update(name="trio"))
    assert "name:   trio   # the name\n" in result


def test_a_typed_value_that_becomes_the_default_is_typed() -> None:
    result = changed(TYPED, lambda values: values["policy"].pop("pfc"))
    assert "policy: {pfc: true, dscp: 0x18}   # by hand\n" in result


def test_a_setting_more_in_a_map_of_one_line() -> None:
    result = changed(TYPED, lambda values: values["policy"].update(priority=5))
    assert "policy: {pfc: no, dscp: 0x18, priority: 5}   # by hand\n" in result


SPREAD = """\
name: x
policy: {
  pfc: no,   # as the vendor says
  # ours
  dscp: 24,
  priority: 4,  # not 3
  ecn: no # for now
}
nodes: {a: {host: h}}
"""


@pytest.mark.parametrize(
    ("change", "gone", "new"),
    [
        ({"dscp": 30}, ["  dscp: 24,"], ["  dscp: 30,"]),
        ({"cnp_dscp": 40}, ["  ecn: no # for now"], ["  ecn: no, cnp_dscp: 40 # for now"]),
    ],
)
def test_comments_in_a_map_of_several_lines_stay(change: dict[str, Any], gone: list[str], new: list[str]) -> None:
    result = changed(SPREAD, lambda values: values["policy"].update(change))
    assert_lines(SPREAD, result, gone=gone, new=new)


LOGIN = "name: x\nlogin: {{{}}}\nnodes: {{a: {{host: h}}}}\n"


@pytest.mark.parametrize(
    ("typed", "away", "left"),
    [
        ("user: u, port: 1, key: k", ["user"], "port: 1, key: k"),
        ("user: u, port: 1, key: k", ["port"], "user: u, key: k"),
        ("user: u, port: 1, key: k", ["key"], "user: u, port: 1"),
        ("user: u, port: 1, key: k", ["port", "key"], "user: u"),
        ("user: u, port: 1, key: k", ["user", "port"], "key: k"),
        ("user: u, port: 1, key: k,", ["user", "key"], "port: 1,"),
        (
            "\n  user: u, # mine\n  port: 1, # odd\n  key: k # new\n",
            ["port"],
            "\n  user: u, # mine\n  # odd\n  key: k # new\n",
        ),
        ("\n  user: u, # mine\n  port: 1 # odd\n", ["port"], "\n  user: u, # mine\n   # odd\n"),
        ("\n  # first\n  user: u,\n  port: 1\n", ["user"], "\n  # first\n  port: 1\n"),
    ],
)
def test_settings_less_in_a_map_of_one_or_several_lines(typed: str, away: list[str], left: str) -> None:
    result = changed(LOGIN.format(typed), lambda values: [values["login"].pop(key) for key in away])
    assert result == LOGIN.format(left)


def test_other_settings_in_a_map_of_several_lines() -> None:
    typed = LOGIN.format(" # whose?\n  user: u, # mine\n  port: 1 # odd\n")
    result = changed(typed, lambda values: values.update(login={"key": "k"}))
    assert result == LOGIN.format("key: k # whose?\n  # mine\n   # odd\n")


def test_a_port_more() -> None:
    port = {"netdev": "eth3", "rail": "rail0", "address": "10.1.0.21"}
    result = changed(TYPED, lambda values: values["nodes"]["n1"]["ports"].append(port))
    assert_lines(TYPED, result, gone=[], new=["    - {netdev: eth3, rail: rail0, address: 10.1.0.21}"])


def test_a_port_in_a_list_of_one_line() -> None:
    port = {"netdev": "eth2", "rail": "rail0", "address": "10.1.0.12"}
    result = changed(TYPED, lambda values: values["nodes"]["n2"]["ports"].append(port))
    assert (
        "[{netdev: eth1, rail: rail0, address: 10.1.0.2}, {netdev: eth2, rail: rail0, address: 10.1.0.12}]}" in result
    )


def test_a_port_less() -> None:
    result = changed(TYPED, lambda values: values["nodes"]["n1"]["ports"].pop(0))
    assert_lines(TYPED, result, gone=["    - {netdev: eth1, rail: rail0, address: 10.1.0.1}   # port A"], new=[])


def test_ports_change_places_with_their_comments() -> None:
    result = changed(TYPED, lambda values: values["nodes"]["n1"]["ports"].reverse())
    assert sorted(result.splitlines()) == sorted(TYPED.splitlines())
    assert result.index("# back") < result.index("# front")


def test_an_address_in_an_item_of_several_lines() -> None:
    result = changed(TYPED, lambda values: values["nodes"]["n1"]["ports"][1].update(address="10.1.0.99"))
    assert_lines(TYPED, result, gone=["      address: 10.1.0.11"], new=["      address: 10.1.0.99"])


def test_all_ports_gone() -> None:
    result = changed(TYPED, lambda values: values["nodes"]["n1"].pop("ports"))
    assert "# rack 3\n\n  # the right one\n" in result


def test_a_node_more_and_a_node_less() -> None:
    def swap(values: dict[str, Any]) -> None:
        del values["nodes"]["n1"]
        values["nodes"]["n3"] = {"host": "10.0.0.3", "gpus": [{"name": "V100", "memory_gb": 16}]}

    result = changed(TYPED, swap)
    assert "# the left one\n" in result
    assert "  n3:\n    host: 10.0.0.3\n    gpus:\n      - {name: V100, memory_gb: 16}\n# the end\n" in result


def test_a_new_section() -> None:
    result = changed(TYPED, lambda values: values.update(login={"user": "me", "key": "~/.ssh/id"}))
    assert "\n\nlogin:\n  user: me\n  key: ~/.ssh/id\n" in result


def test_a_section_gone() -> None:
    result = changed(TYPED, lambda values: values.pop("policy"))
    assert_lines(TYPED, result, gone=["policy: {pfc: no, dscp: 0x18}   # by hand"], new=[])


@pytest.mark.parametrize("empty", ["rails:\n", "rails: {}\n", "rails:   # none yet\n  # rail0: {}\n"])
def test_a_section_that_was_empty(empty: str) -> None:
    text = f"name: x\n{empty}nodes:\n  a: {{host: h}}\n"
    result = changed(text, lambda values: values.update(rails={"r": {"point_to_point": True}}))
    assert "\nrails:\n  r: {point_to_point: true}\n" in result


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nnodes: {a: {host: h}}",
        "{name: x, nodes: {a: {host: h}}}",
        "---\nname: x\nnodes:\n  a:\n    host: h\n...\n",
        "\ufeffname: x\nnodes:\n  a:\n    host: h\n",
        "name: x\r\nnodes:\r\n  a:\r\n    host: h\r\n",
        "? name\n: x\n? nodes\n: a:\n    host: h\n",
        "name: >\n  x\nnodes:\n  a:\n    host: |-\n      h\n    python: |-\n      p\n".replace(">", ">-"),
        "name: &n x\nnodes:\n  a:\n    host: !!str h\n",
    ],
)
def test_other_ways_to_type_it(text: str) -> None:
    def change(values: dict[str, Any]) -> None:
        values["name"] = "y"
        values["nodes"]["a"].update(host="i", python="q r", gpus=[{"name": "g"}])
        values["nodes"]["b"] = {"host": "j"}
        values["training"] = {"workdir": "/data"}

    changed(text, change)


def test_a_file_with_mistakes_is_refused() -> None:
    with pytest.raises(ClusterFileError, match=r"site.yaml:1: unknown: unknown key"):
        rewrite("unknown: 1\n", loads(TYPED, name="x"), name="site.yaml")


def test_a_cluster_that_no_file_can_say_is_refused() -> None:
    cluster = loads(TYPED, name="x")
    with pytest.raises(ClusterFileError, match="is the host of"):
        rewrite(TYPED, cluster.model_copy(update={"nodes": {**cluster.nodes, "n3": cluster.nodes["n1"]}}))
