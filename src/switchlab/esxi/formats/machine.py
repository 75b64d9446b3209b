"""The other formats of esxcli: csv, keyvalue, xml and json."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from switchlab.esxi.formats.records import Answer, Fields, Value, identifier
from switchlab.esxi.formats.text import plain

NAMESPACE = "http://www.vmware.com/Products/ESX/5.0/esxcli/"


def as_csv(answer: Answer) -> str:
    """Columns in the order of their names, with a comma after the last; nested structures are left out."""
    flat = [
        {identifier(label): value for label, value in row.items() if not isinstance(value, Mapping)}
        for row in answer.structures
    ]
    names = sorted({identifier(label) for label in answer.columns} | {name for row in flat for name in row})
    lines = [names, *([_cell(row.get(name, "")) for name in names] for row in flat)]
    return "".join("".join(f"{cell}," for cell in line) + "\n" for line in lines)


def _cell(value: Value) -> str:
    text = "".join(f"{item}," for item in value) if isinstance(value, tuple) else plain(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n') else text


def as_keyvalue(answer: Answer) -> str:
    lines: list[str] = []
    for number, row in enumerate(answer.structures):
        prefix = answer.type_name if answer.is_single else f"{answer.type_name}[{number}]"
        lines += _pairs(prefix, row)
    return "".join(f"{line}\n" for line in lines)


def _pairs(prefix: str, row: Fields) -> Iterator[str]:
    for label, value in row.items():
        name = f"{prefix}.{identifier(label)}"
        if isinstance(value, Mapping):
            yield from _pairs(name, value)
        elif isinstance(value, tuple):
            yield f"{name}.string[] = {','.join(value)}"
        else:
            yield f"{name}.{_type(value)}={plain(value)}"


def _type(value: Value) -> str:
    return "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "string"


def as_json(answer: Answer) -> str:
    rows = [_plain_object(row) for row in answer.structures]
    return json.dumps(rows[0] if answer.is_single else rows, indent=2) + "\n"


def _plain_object(row: Fields) -> dict[str, object]:
    return {
        identifier(label): _plain_object(value)
        if isinstance(value, Mapping)
        else list(value)
        if isinstance(value, tuple)
        else value
        for label, value in sorted(row.items())
    }


def as_xml(answer: Answer) -> str:
    body = [line for row in answer.structures for line in _structure(answer.type_name, row)]
    if not answer.is_single:
        body = ['<list type="structure">', *(f"   {line}" for line in body), "</list>"]
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<output xmlns="{NAMESPACE}">', "<root>"]
    lines += [*(f"   {line}" for line in body), "</root>", "</output>"]
    return "".join(f"{line}\n" for line in lines)


def _structure(type_name: str, row: Fields) -> Iterator[str]:
    yield f"<structure typeName={quoteattr(type_name)}>"
    for label, value in row.items():
        yield f"   <field name={quoteattr(identifier(label))}>"
        yield from (f"      {line}" for line in _element(identifier(label), value))
        yield "   </field>"
    yield "</structure>"


def _element(name: str, value: Value) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _structure(name, value)
    elif isinstance(value, tuple):
        yield '<list type="string">'
        yield from (f"   <string>{escape(item)}</string>" for item in value)
        yield "</list>"
    else:
        yield f"<{_type(value)}>{escape(plain(value))}</{_type(value)}>"


FORMATTERS: dict[str, Callable[[Answer], str]] = {
    "csv": as_csv,
    "keyvalue": as_keyvalue,
    "xml": as_xml,
    "json": as_json,
}
