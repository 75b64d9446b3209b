"""Reads the rules that `iptables -S` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from railbed.errors import ParseError
from railbed.parsing.firewall.rules import Action, Chain, PacketRule, Verdict
from railbed.parsing.firewall.values import networks, port_range
from railbed.parsing.text import shell_words

ACTIONS: dict[str, Action] = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "drop", "RETURN": "return"}
UNDERSTOOD_MODULES = {"tcp", "udp", "multiport", "conntrack", "state", "comment"}
LOOPBACK = ("127.", "::1")
NOISE = re.compile(r"^(#|ip6?tables\S* v|modprobe: |Perhaps |iptables: )")
FORBIDDEN = re.compile(r"permission denied|operation not permitted|must be root", re.IGNORECASE)
"""Rules that we may not read are not the same as no rules."""


def read_iptables(text: str, family: str) -> dict[str, Chain]:
    """Return the chains of the filter table; base chains other than INPUT are left out."""
    rules: dict[str, list[PacketRule]] = {}
    policies: dict[str, Verdict] = {}
    lines = [line for line in text.splitlines() if line.strip() and not NOISE.match(line)]
    forbidden = next((line for line in text.splitlines() if NOISE.match(line) and FORBIDDEN.search(line)), None)
    if forbidden:
        raise ParseError("the rules may not be read", line=forbidden)
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
    if (states and "NEW" not in states.split(",")) or options.get("-i") == "lo" or _is_to_loopback(words):
        return
    target = options.get("-j") or options.get("-g")
    ports = options.get("--dports") or options.get("--dport")
    netdev = options.get("-i")
    action: Action = ACTIONS.get(target or "", "nothing")
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


def _is_to_loopback(words: list[str]) -> bool:
    """Whether the rule is for a destination inside the machine, such as the rule that Kubernetes adds."""
    return any(
        before != "!" and option == "-d" and value.startswith(LOOPBACK)
        for before, option, value in zip(["", *words], words, words[1:], strict=False)
    )


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
        if word in ("-p", "-s", "-i", "--dport", "--dports", "--ctstate", "--state"):
            yield word, value
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
