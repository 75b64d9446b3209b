"""Running one command line: find the command in the current mode or one above it, and call it."""

from __future__ import annotations

from switchlab.nexus.cli.commandset import Match, Tree, Trees
from switchlab.nexus.cli.context import Context, Result
from switchlab.nexus.cli.grammar import SyntaxFault, Token, descend, parse, tokenize
from switchlab.nexus.model.config import Rejected


class Interpreter:
    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def run(self, context: Context, line: str) -> Result:
        """Run a command; raise SyntaxFault or Rejected.

        A line that the current mode does not have is tried in the modes above it, as NX-OS does:
        that is why a pasted configuration needs no `exit`.
        """
        depth, match = self._find(context, line)
        before = list(context.modes)
        if match.command.mode not in ("any", "exec"):
            del context.modes[depth:]
        try:
            result = match.command.handler(context, match)
        except Rejected:
            context.modes[:] = before
            raise
        if match.command.changes:
            context.switch.config_changed()
        return result

    def help(self, context: Context, line: str) -> list[str]:
        """Return what could follow an unfinished line."""
        tokens = tokenize(line)
        prefix = tokens.pop().text.lower() if tokens and not line.endswith(" ") else ""
        entries: list[str] = []
        for _, tree in self._candidates(context):
            try:
                node = descend(tree, tokens).node
            except SyntaxFault:
                continue
            entries += [entry for entry in node.help(prefix) if entry not in entries]
        return sorted(entries, key=lambda entry: (entry.startswith("<"), entry))

    def _find(self, context: Context, line: str) -> tuple[int, Match]:
        worst: SyntaxFault | None = None
        tokens = tokenize(line)
        spelled_out = False
        for depth, tree in self._candidates(context):
            exact = _starts_exactly(tree, tokens)
            if spelled_out and not exact:
                continue  # `class` of this mode must not become an abbreviation of `class-map` above
            spelled_out = spelled_out or exact
            try:
                return depth, parse(tree, line)
            except SyntaxFault as fault:
                if worst is None or fault.position > worst.position:
                    worst = fault
        assert worst is not None
        raise worst

    def _candidates(self, context: Context) -> list[tuple[int, Tree]]:
        """Return the trees to try, in order, with how many modes stay open for each."""
        features = context.config.features
        trees = [(len(context.modes), self._trees.tree("any", features))] if context.modes else []
        for depth, mode in reversed(list(enumerate(context.modes, 1))):
            trees += [(depth, self._trees.tree(mode.name, features))]
        return [*trees, (0, self._trees.tree("exec", features))]


def _starts_exactly(tree: Tree, tokens: list[Token]) -> bool:
    """Return whether a command starts with a whole keyword of this tree, after `no` if there is one."""
    node = tree
    for token in tokens:
        word = token.text.lower()
        if word not in node.keywords:
            return False
        if word != "no":
            return True
        node = node.keywords[word]
    return False
