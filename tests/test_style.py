"""The naming rules of CONTRIBUTING ("Plain English"), as far as a program can check them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import ROOT, SOURCE, SWITCHLAB, trees

pytestmark = pytest.mark.xdist_group("source")
VAGUE = {
    "told",
    "one",
    "ones",
    "found",
    "said",
    "thing",
    "things",
    "whole",
    "given",
    "kept",
    "seen",
    "asked",
    "tell",
    "say",
}
"""Names that say nothing about their content."""


def vague_names(tree: ast.AST) -> Iterator[str]:
    """Yield every variable, attribute, parameter and function with a vague name, as `line: name`."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case _:
                continue
        if name.strip("_") in VAGUE:
            yield f"{node.lineno}: {name}"


def test_names_are_not_vague() -> None:
    others = [path for folder in ("tests", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]
    parsed = {**trees(), **trees(SWITCHLAB), **{path: ast.parse(path.read_text()) for path in others}}
    violations = [f"{path.relative_to(ROOT)}:{name}" for path, tree in parsed.items() for name in vague_names(tree)]
    assert violations == [], "name the content instead; see CONTRIBUTING, Plain English"


@pytest.mark.parametrize(
    "planted",
    [
        "told = 1",
        "for one in ():\n    pass",
        "def _told():\n    pass",
        "[one for one in ()]",
        "lambda thing: 1",
        "a.told = 1",
    ],
)
def test_a_planted_vague_name_is_rejected(planted: str) -> None:
    assert list(vague_names(ast.parse(planted)))


IRREGULAR = {
    *("begun", "bought", "broken", "brought", "built", "caught", "chosen", "done", "drawn", "driven", "fallen", "felt"),
    *(
        "forgotten",
        "frozen",
        "given",
        "gone",
        "grown",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lost",
    ),
    *("made", "meant", "paid", "proven", "risen", "seen", "sent", "shown", "sold", "spent", "spoken", "stolen"),
    *("taken", "taught", "thought", "thrown", "torn", "woken", "worn", "written"),
}
"""Participles that do not end in -ed; those that are the verb, too, such as `split`, are left out."""
VERBS_IN_ED = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
NO_PARTICIPLES = {
    "railbed",  # the program
    "_wred",  # weighted random early detection
    "hidden",  # a language model's hidden state: the term of the field
}


def participle_functions(tree: ast.AST) -> Iterator[str]:
    """Yield every function whose name is a participle alone, as `line: name`. A property may have such a name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name in NO_PARTICIPLES:
            continue
        word = node.name.strip("_")
        is_participle = word in IRREGULAR or (word.endswith("ed") and "_" not in word and word not in VERBS_IN_ED)
        is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        if is_participle and not is_property:
            yield f"{node.lineno}: {node.name}"


def test_functions_are_no_participles() -> None:
    tools = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "tools").rglob("*.py"))}
    parsed = {**trees(), **trees(SWITCHLAB), **tools}
    violations = [
        f"{path.relative_to(ROOT)}:{name}" for path, tree in parsed.items() for name in participle_functions(tree)
    ]
    assert violations == [], "name what the function does; see CONTRIBUTING, Plain English"


@pytest.mark.parametrize(
    ("planted", "is_rejected"),
    [
        ("def _merged(groups): pass", True),
        ("async def drawn(): pass", True),
        ("class A:\n    def gathered(self): pass", True),
        ("class A:\n    @property\n    def gathered(self): pass", False),
        ("class A:\n    @cached_property\n    def _lost(self): pass", False),
        ("def saved_bytes(): pass", False),
        ("def feed(): pass", False),
        ("def split(): pass", False),
    ],
)
def test_a_planted_participle_is_rejected(planted: str, is_rejected: bool) -> None:
    assert bool(list(participle_functions(ast.parse(planted)))) == is_rejected


def repeated_class_names(package: Path) -> set[str]:
    """Return the public class names of a package that several of its modules define."""
    names = [node.name for tree in trees(package).values() for node in tree.body if isinstance(node, ast.ClassDef)]
    return {name for name, count in Counter(names).items() if count > 1 and not name.startswith("_")}


def test_a_public_class_name_exists_once() -> None:
    assert repeated_class_names(SOURCE) == set(), "name the class for what sets it apart"
    assert repeated_class_names(SWITCHLAB) == set()
