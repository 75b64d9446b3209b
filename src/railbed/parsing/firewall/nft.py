"""Reads the rules that `nft -j list ruleset` prints."""

from __future__ import annotations

from dataclasses import replace

from railbed.parsing.fields import Fields
from railbed.parsing.firewall.match import with_match
from railbed.parsing.firewall.rules import Action, Chain, PacketRule, Verdict
from railbed.parsing.text import json_value

ACTIONS: dict[str, Action] = {"accept": "accept", "drop": "drop", "reject": "drop", "return": "return"}
HARMLESS = ("counter", "log", "comment", "notrack", "mangle")
HOOKS = ("input", "prerouting")
FAMILIES = ("ip", "ip6", "inet")
OF_IPTABLES = "xt"
"""How nft shows rules of iptables that it cannot translate."""


def read_nft(text: str) -> dict[str, Chain]:
    """Return the chains of IPv4 and IPv6 filters by `family table name`."""
    heads: dict[str, Fields] = {}
    rules: dict[str, list[PacketRule]] = {}
    for entry in Fields(json_value(text)).subs("nftables"):
        chain, rule = entry.sub("chain"), entry.sub("rule")
        if chain:
            heads[_key(chain, "name")] = chain
        elif rule:
            rules.setdefault(_key(rule, "chain"), []).extend(_rules(rule))
    return {
        name: Chain(family=head.text("family"), rules=tuple(rules.get(name, ())), policy=_policy(head))
        for name, head in heads.items()
        if head.text("family") in FAMILIES
    }


def without_iptables(chains: dict[str, Chain]) -> dict[str, Chain]:
    """Leave out the tables that iptables keeps in nft: the listing of iptables is more complete."""
    return {name: chain for name, chain in chains.items() if not name.startswith(("ip filter ", "ip6 filter "))}


def _key(fields: Fields, name: str) -> str:
    return f"{fields.text('family')} {fields.text('table')} {fields.text(name)}"


def _policy(chain: Fields) -> Verdict | None:
    if chain.optional_text("type") != "filter" or chain.optional_text("hook") not in HOOKS:
        return None
    return "drop" if chain.optional_text("policy") == "drop" else "accept"


def _rules(rule: Fields) -> tuple[PacketRule, ...]:
    """Return the rule; none if it cannot match a new connection, two if it may accept as well as drop."""
    made = PacketRule(action="nothing")
    either = False
    for expression in rule.subs("expr"):
        for name, value in expression.items():
            if name == "match":
                narrowed = with_match(made, Fields(value))
                if narrowed is None:
                    return ()
                made = narrowed
            elif name in ACTIONS:
                made = replace(made, action=ACTIONS[name])
            elif name in ("jump", "goto"):
                target = f"{rule.text('family')} {rule.text('table')} {Fields(value).text('target')}"
                made = replace(made, action="jump" if name == "jump" else "goto", target=target)
            elif name == "vmap" and _is_connection_state(Fields(value)):
                return _by_state(made, Fields(value))
            elif name not in HARMLESS:
                made = replace(made, unclear=True)
                either = either or name in ("vmap", OF_IPTABLES, "queue")
    if either and made.action == "nothing":
        return replace(made, action="accept"), replace(made, action="drop")
    return (made,)


def _is_connection_state(vmap: Fields) -> bool:
    key = vmap.sub("key")
    connection = key.sub("ct") if key else None
    return bool(connection and connection.optional_text("key") == "state")


def _by_state(rule: PacketRule, vmap: Fields) -> tuple[PacketRule, ...]:
    """Return the rules for new connections in a map from connection states to verdicts."""
    data = vmap.sub("data")
    pairs = data.get("set") if data else None
    for pair in pairs if isinstance(pairs, list) else []:
        if isinstance(pair, list) and len(pair) == 2 and pair[0] == "new" and isinstance(pair[1], dict):
            action = next((ACTIONS[name] for name in pair[1] if name in ACTIONS), None)
            return (replace(rule, action=action) if action else replace(rule, action="drop", unclear=True),)
    return ()
