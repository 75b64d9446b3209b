"""The rules of a firewall, as `iptables -S` and `nft -j list ruleset` print them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network
from itertools import pairwise

from railbed.errors import ParseError
from railbed.parsing.firewall.rules import Action, Chain, PacketRule, Verdict, networks, port_range, with_match
from railbed.parsing.lines import Lines
from railbed.parsing.text import Fields, json_value, shell_words

IPTABLES_ACTIONS: dict[str, Action] = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "drop", "RETURN": "return"}
UNDERSTOOD_MODULES = {"tcp", "udp", "multiport", "conntrack", "state", "comment", "addrtype"}
NOISE = re.compile(r"^(#|ip6?tables\S* v|modprobe: |Perhaps |iptables: )")
FORBIDDEN = re.compile(r"permission denied|operation not permitted|must be root", re.IGNORECASE)
"""Rules that we may not read are not the same as no rules."""


def read_iptables(listing: Lines, family: str) -> dict[str, Chain]:
    """Return the chains of the filter table; base chains other than INPUT are left out."""
    rules: dict[str, list[PacketRule]] = {}
    policies: dict[str, Verdict] = {}
    shown = list(listing)
    forbidden = next((line for line in shown if NOISE.match(line) and FORBIDDEN.search(line)), None)
    if forbidden:
        raise ParseError("the rules may not be read", line=forbidden)
    lines = [line for line in shown if not NOISE.match(line)]
    for line in (line for line in lines if not line.startswith("-")):
        listing.unknown(line)
    lines = [line for line in lines if line.startswith("-")]
    if shown and not lines:
        listing.require_known("expected a rule as `iptables -S` prints it")
    words_of = {line: _words(line) for line in lines}
    own = {words[1] for words in words_of.values() if words[0] in ("-N", "-P")}
    for line in lines:
        option, chain, *rest = words_of[line]
        if option == "-P" and rest:
            rules.setdefault(chain, [])
            policies[chain] = "accept" if rest[0] == "ACCEPT" else "drop"
        elif option == "-N":
            rules.setdefault(chain, [])
        elif option == "-A":
            rules.setdefault(chain, []).extend(_rule(rest, own, family))
        else:
            raise ParseError("expected a rule as `iptables -S` prints it", line=line)
    return {
        f"{family} iptables {name}": Chain(
            family=family, rules=tuple(chain_rules), policy=policies.get(name) if name == "INPUT" else None
        )
        for name, chain_rules in rules.items()
        if name == "INPUT" or name not in policies
    }


def _words(line: str) -> list[str]:
    words = shell_words(line)
    if len(words) < 2:
        raise ParseError("expected a rule as `iptables -S` prints it", line=line)
    return words


def _rule(words: list[str], own: set[str], family: str) -> Iterator[PacketRule]:
    """Yield the rule, unless it never meets the first packet of a connection from another machine."""
    options = dict(_options(words))
    states = options.get("--ctstate") or options.get("--state")
    if (states and "NEW" not in states.split(",")) or options.get("-i") == "lo" or _is_to_others(words):
        return
    if options.get("--dst-type", "LOCAL") != "LOCAL":
        return
    target = options.get("-j") or options.get("-g")
    ports = options.get("--dports") or options.get("--dport")
    netdev = options.get("-i")
    action: Action = IPTABLES_ACTIONS.get(target or "", "nothing")
    if target in own:
        action = "goto" if "-g" in options else "jump"
    yield PacketRule(
        action=action,
        target=f"{family} iptables {target}" if target in own else None,
        protocols=(options["-p"],) if "-p" in options and options["-p"] != "all" else None,
        ports=tuple(port_range(part) for part in ports.split(",")) if ports else None,
        netdevs=(netdev.replace("+", "*"),) if netdev else None,
        sources=networks([options["-s"]]) if "-s" in options else None,
        unclear="unclear" in options,
    )


def _is_to_others(words: list[str]) -> bool:
    """Whether the rule is for a destination inside the machine, as Kubernetes adds it, or for a group, as ufw adds it.

    A peer sends to the machine's own address on the rail.
    """
    return any(
        before != "!" and option == "-d" and _is_loopback_or_group(value)
        for before, option, value in zip(["", *words], words, words[1:], strict=False)
    )


def _is_loopback_or_group(text: str) -> bool:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        # A mask with gaps, for example: such a rule is unclear, and the others are not.
        return False
    return network.is_loopback or network.is_multicast


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the supported options, and `unclear` for any other condition; words after the target are its options."""
    rest = iter(words)
    for word in rest:
        value = next(rest, "")
        if word == "-c":
            next(rest, "")  # packets, bytes: `iptables -S -v` counts them
            continue
        if word in ("-j", "-g"):
            yield word, value
            return
        if word in ("-p", "-s", "-i", "--dport", "--dports", "--ctstate", "--state", "--dst-type"):
            yield word, value
        elif word in ("-d", "--sport", "--sports"):
            yield "unclear", word
        elif not (word == "--comment" or (word == "-m" and value in UNDERSTOOD_MODULES)):
            yield "unclear", word
            yield from _target([value, *rest])
            return


def _target(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield only the target: other words after an unsupported condition may belong to that condition."""
    for option, value in pairwise(words):
        if option in ("-j", "-g"):
            yield option, value
            return


NFT_ACTIONS: dict[str, Action] = {"accept": "accept", "drop": "drop", "reject": "drop", "return": "return"}
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
            elif name in NFT_ACTIONS:
                made = replace(made, action=NFT_ACTIONS[name])
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
            action = next((NFT_ACTIONS[name] for name in pair[1] if name in NFT_ACTIONS), None)
            return (replace(rule, action=action) if action else replace(rule, action="drop", unclear=True),)
    return ()
