"""Syntax errors of YAML in plain sentences. They never repeat text of the file: that could be a password."""

from __future__ import annotations

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from railbed.yamlfile.mistakes import Mistake

SENTENCES = (
    ("maximum depth", "nested too deeply"),
    ("found character '\\t'", "a tab; YAML requires spaces"),
    ("cannot start any token", "a value that begins with this character needs quotes"),
    ("but found another document", "a second document begins here; {noun} has only one"),
    ("undefined alias", "a value that begins with * is taken for an alias; put it in quotes"),
    ("duplicate anchor", "anchors (&) are not used in {noun}; write the value out"),
    ("mapping values are not allowed here", "a key is not allowed here: look at the indentation, and at : in values"),
    ("sequence entries are not allowed here", "a list entry is not allowed here: look at the indentation"),
    ("unknown escape character", "a backslash in double quotes must not come before this character; use '…'"),
    ("end of stream", "quotes are opened and never closed"),
    ("expected ',' or ']'", "a list is opened with [ and not closed, or a comma is missing"),
    ("expected ',' or '}'", "a map is opened with { and not closed, or a comma is missing"),
    ("expected <block end>", "this line does not line up with those before it: look at the indentation"),
    ("could not find expected ':'", "a : is missing after a key"),
    ("tag", "a value that begins with ! is taken for a tag; put it in quotes"),
    ("anchor", "a value that begins with & is taken for an anchor; put it in quotes"),
    ("alias", "a value that begins with * is taken for an alias; put it in quotes"),
    ("version", "only YAML 1.2 is supported; remove the %YAML line"),
)
"""Part of the parser's message, and a sentence for the user; the first match counts."""

OPENED_EARLIER = ("end of stream", "expected ',' or", "could not find expected ':'")
"""Problems that the parser detects late: the line where they began is reported."""


def syntax_mistake(text: str, error: YAMLError, noun: str) -> Mistake:
    """Return the parser's error as a mistake of the file."""
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Mistake(f"a control character; {noun} is plain text", line)
    if not isinstance(error, MarkedYAMLError):
        return Mistake("not YAML")
    words = f"{error.problem or ''} {error.context or ''}"
    sentence = next(
        (sentence for piece, sentence in SENTENCES if piece in words), "not YAML: look at this line and the one before"
    )
    earlier = any(piece in words for piece in OPENED_EARLIER)
    marks = [error.context_mark, error.problem_mark] if earlier else [error.problem_mark, error.context_mark]
    return Mistake(sentence.replace("{noun}", noun), next((mark.line + 1 for mark in marks if mark is not None), 0))
