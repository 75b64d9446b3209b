"""Pydantic's errors as mistakes of the file: in plain words, with a line and a suggestion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from railbed.yamlfile.document import YamlDocument
from railbed.yamlfile.kind import FileKind
from railbed.yamlfile.mistakes import SECRETS, KeyPath, Mistake, did_you_mean, nearest, shorten
from railbed.yamlfile.wording import Schema, actual, choices, describe_expected, keys_at, schema_at, schema_of

KEY_MARK = "[key]"
"""How pydantic marks an error in a map's key rather than in its value."""


def translate_errors(document: YamlDocument, errors: ValidationError, kind: FileKind) -> Iterator[Mistake]:
    """Yield one mistake for each error, except errors that an unknown key already explains."""
    yield from _Translator(document, kind).mistakes(errors)


@dataclass(frozen=True, slots=True)
class _Translator:
    document: YamlDocument
    kind: FileKind

    @property
    def root(self) -> Schema:
        return schema_of(self.kind.model)

    def mistakes(self, errors: ValidationError) -> Iterator[Mistake]:
        details = errors.errors(include_url=False)
        meant = {self._meant_instead(error) for error in details if error["type"] == "extra_forbidden"}
        for error in details:
            path = _path(error)
            if error["type"] == "missing" and path in meant:
                continue
            if error["type"] == "too_short" and any(
                _path(other)[: len(path)] == path for other in details if other is not error
            ):
                continue  # it has entries, and their mistakes are reported
            if SECRETS.intersection(path):
                yield self._about_a_secret(path, error)
            else:
                yield self._mistake(path, error)

    def _meant_instead(self, error: ErrorDetails) -> KeyPath:
        *parent, key = _path(error)
        return (*parent, nearest(str(key), keys_at(self.root, tuple(parent)), self.kind.habits))

    def _mistake(self, path: KeyPath, error: ErrorDetails) -> Mistake:
        line = self.document.line(path)
        match error["type"]:
            case "missing" if path not in self.document.positions:
                return Mistake(f"missing key {path[-1]}", line, path[:-1])
            case "extra_forbidden":
                return Mistake(self._unknown_key(path), line, path)
            case "value_error":
                return Mistake(_own_sentence(error), line, path)
            case "too_short":
                return Mistake("at least one is needed", line, path)
        if error["loc"] and error["loc"][-1] == KEY_MARK:
            names = describe_expected(self.root, schema_at(self.root, path[:-1]).get("propertyNames", {}))
            return Mistake(f"expected {names}, found {actual(path[-1])}", line, path[:-1])
        return Mistake(self._not_as_expected(path, error), line, path)

    def _unknown_key(self, path: KeyPath) -> str:
        known = keys_at(self.root, path[:-1])
        advice = did_you_mean(str(path[-1]), known, self.kind.habits)
        return "unknown key" + (advice or f"; the keys here are {', '.join(known)}")

    def _not_as_expected(self, path: KeyPath, error: ErrorDetails) -> str:
        schema, value = schema_at(self.root, path), None if error["type"] == "missing" else error["input"]
        position = self.document.positions.get(path)
        typed = shorten((position and position.text) or str(value), 40)
        if isinstance(value, bool | int | float):
            advice = f'; to mean text, write "{typed}"' if schema.get("type") == "string" else ""
            return f"expected {describe_expected(self.root, schema)}, found {typed}{advice}"
        sentence = f"expected {describe_expected(self.root, schema)}, found {actual(value)}"
        wants_number = schema.get("type") in {"integer", "number"}
        if wants_number and isinstance(value, str) and value.replace(".", "", 1).isdigit():
            return f"{sentence}, which is text; remove the quotes"
        return sentence + (did_you_mean(value, choices(schema)) if isinstance(value, str) else "")

    def _about_a_secret(self, path: KeyPath, error: ErrorDetails) -> Mistake:
        """Return a sentence that never shows a value: it may be the secret."""
        line = self.document.line(path)
        if path[-1] in SECRETS and not isinstance(error["input"], dict):
            where = f"`login: {{{path[-1]}: {{env: VARIABLE}}}}`, or keyring in place of env"
            return Mistake(f"never write a {path[-1]} in this file; name where to find it: {where}", line, path)
        match error["type"]:
            case "extra_forbidden":
                return Mistake(self._unknown_key(path), line, path)
            case "value_error":
                return Mistake(str(error["ctx"]["error"]), line, path)
        return Mistake(f"expected {describe_expected(self.root, schema_at(self.root, path))}", line, path)


def _path(error: ErrorDetails) -> KeyPath:
    return tuple(part for part in error["loc"] if part != KEY_MARK)


def _own_sentence(error: ErrorDetails) -> str:
    """Return the sentence that the model raised, completed with the actual value if it names what it expected."""
    sentence = str(error["ctx"]["error"])
    if not sentence.startswith("expected"):
        return sentence
    expectation, semicolon, advice = sentence.partition(";")
    return f"{expectation}, found {actual(error['input'])}{semicolon}{advice}"
