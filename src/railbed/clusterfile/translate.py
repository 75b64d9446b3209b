"""Pydantic's errors as mistakes of the file: in plain words, with a line, and with what was probably meant."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from railbed.clusterfile.document import Document
from railbed.clusterfile.mistakes import SECRETS, KeyPath, Mistake, did_you_mean, nearest, shortened
from railbed.clusterfile.wording import choices, expected, found, keys_at, schema_at

KEY_MARK = "[key]"
"""How pydantic marks an error in a map's key and not in its value."""


def translated(document: Document, errors: ValidationError) -> Iterator[Mistake]:
    """Yield one mistake for each error; what an unknown key already explains is not told again."""
    details = errors.errors(include_url=False)
    meant = {_meant_instead(error) for error in details if error["type"] == "extra_forbidden"}
    for error in details:
        path = _path(error)
        if error["type"] == "missing" and path in meant:
            continue
        if SECRETS.intersection(path):
            yield _about_a_secret(document, path, error)
        else:
            yield _mistake(document, path, error)


def _path(error: ErrorDetails) -> KeyPath:
    return tuple(part for part in error["loc"] if part != KEY_MARK)


def _meant_instead(error: ErrorDetails) -> KeyPath:
    *parent, key = _path(error)
    return (*parent, nearest(str(key), keys_at(tuple(parent))))


def _mistake(document: Document, path: KeyPath, error: ErrorDetails) -> Mistake:
    line = document.line(path)
    match error["type"]:
        case "missing" if path not in document.places:
            return Mistake(f"missing key {path[-1]}", line, path[:-1])
        case "extra_forbidden":
            return Mistake(_unknown_key(path), line, path)
        case "value_error":
            return Mistake(_own_sentence(error), line, path)
        case "too_short":
            return Mistake("at least one is needed", line, path)
    if error["loc"][-1] == KEY_MARK:
        names = expected(schema_at(path[:-1]).get("propertyNames", {}))
        return Mistake(f"expected {names}, found {found(path[-1])}", line, path[:-1])
    return Mistake(_not_as_expected(document, path, error), line, path)


def _unknown_key(path: KeyPath) -> str:
    known = keys_at(path[:-1])
    return "unknown key" + (did_you_mean(str(path[-1]), known) or f"; the keys here are {', '.join(known)}")


def _own_sentence(error: ErrorDetails) -> str:
    """Return the sentence that the model raised, with what was found where it says what it expected."""
    sentence = str(error["ctx"]["error"])
    if not sentence.startswith("expected"):
        return sentence
    wish, semicolon, advice = sentence.partition(";")
    return f"{wish}, found {found(error['input'])}{semicolon}{advice}"


def _not_as_expected(document: Document, path: KeyPath, error: ErrorDetails) -> str:
    schema, value = schema_at(path), None if error["type"] == "missing" else error["input"]
    typed = shortened(document.places[path].text or "", 40)
    if isinstance(value, bool | int | float):
        advice = f'; to mean text, write "{typed}"' if schema.get("type") == "string" else ""
        return f"expected {expected(schema)}, found {typed}{advice}"
    sentence = f"expected {expected(schema)}, found {found(value)}"
    if isinstance(value, str) and schema.get("type") in {"integer", "number"} and value.replace(".", "", 1).isdigit():
        return f"{sentence}, which is text; take the quotes away"
    return sentence + (did_you_mean(value, choices(schema)) if isinstance(value, str) else "")


def _about_a_secret(document: Document, path: KeyPath, error: ErrorDetails) -> Mistake:
    """Return a sentence that never shows a value: it may be the secret."""
    line = document.line(path)
    if path[-1] in SECRETS and not isinstance(error["input"], dict):
        where = f"`login: {{{path[-1]}: {{env: VARIABLE}}}}`, or keyring in place of env"
        return Mistake(f"a {path[-1]} never stands in this file; say where it is found: {where}", line, path)
    match error["type"]:
        case "extra_forbidden":
            return Mistake(_unknown_key(path), line, path)
        case "value_error":
            return Mistake(str(error["ctx"]["error"]), line, path)
    return Mistake(f"expected {expected(schema_at(path))}", line, path)
