"""The JSON Schema of pipeline files, made from the model; editors complete with it."""

from __future__ import annotations

from typing import Any, Final

from millrace.model.quantity import Records
from millrace.model.shape import (
    Choice,
    Either,
    Field,
    Flag,
    Kind,
    Measure,
    Number,
    Record,
    Several,
    Shape,
    Table,
    Text,
    Whole,
    record_of,
    records_in,
)
from millrace.model.types import NAME
from millrace.spec.document import GROUP_KEYS, PROFILE_KEYS, SECTIONS, TOP_KEYS
from millrace.spec.load import SHAPES

EXPRESSION: Final = {"$ref": "#/$defs/expression"}


def schema() -> dict[str, Any]:
    """Return the schema of a pipeline file and of the files it includes."""
    records = {
        record.of.__name__.lower(): record
        for cls in SHAPES.values()
        for record in records_in(record_of(cls))
    }
    definitions: dict[str, Any] = {
        "expression": {"type": "string", "pattern": r"\$\{\{", "description": "${{ CEL }}"},
        "constants": {"type": ["object", "null"], "description": TOP_KEYS["constants"]},
        "include": {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            "description": TOP_KEYS["include"],
        },
        "defaults": _closed(
            {section: _defaults(section) for section in SECTIONS}, TOP_KEYS["defaults"]
        ),
        **{name: _record(record) for name, record in sorted(records.items())},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A Millrace pipeline file",
        **_closed(_top(), "sites, streams and jobs of one pipeline"),
        "$defs": definitions,
    }


def _top() -> dict[str, Any]:
    profile = _closed({key: {"$ref": f"#/$defs/{key}"} for key in PROFILE_KEYS}, "")
    group = _closed({section: _defaults(section) for section in GROUP_KEYS}, "")
    special: dict[str, dict[str, Any]] = {
        "include": {"$ref": "#/$defs/include"},
        "constants": {"$ref": "#/$defs/constants"},
        "defaults": {"$ref": "#/$defs/defaults"},
        "profiles": {"type": ["object", "null"], "additionalProperties": profile},
        "groups": {"type": ["object", "null"], "additionalProperties": {"anyOf": [group, _NULL]}},
        **{
            section: {"type": ["object", "null"], "additionalProperties": _item(section)}
            for section in SECTIONS
        },
    }
    return {
        key: {"description": doc, **special.get(key, {"type": "string"})}
        for key, doc in TOP_KEYS.items()
    }


_NULL: Final = {"type": "null"}


def _closed(properties: dict[str, Any], description: str) -> dict[str, Any]:
    described = {"description": description} if description else {}
    kind = ["object", "null"]
    return {**described, "type": kind, "additionalProperties": False, "properties": properties}


def _item(section: str) -> dict[str, Any]:
    """A thing of a section: its fields, and `for` to repeat it."""
    record = record_of(SHAPES[section])
    repeated = {
        "type": "object",
        "description": "repeat over lists: {edge: [north, south]}",
        "additionalProperties": {"anyOf": [{"type": "array"}, EXPRESSION]},
    }
    return {"anyOf": [_closed({"for": repeated, **_fields(record)}, ""), _NULL]}


def _defaults(section: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{SHAPES[section].__name__.lower()}"}


def _record(record: Record) -> dict[str, Any]:
    return _closed(_fields(record), (record.of.__doc__ or "").strip().splitlines()[0])


def _fields(record: Record) -> dict[str, Any]:
    return {field.key: _field(field) for field in record.fields}


def _field(field: Field) -> dict[str, Any]:
    described: dict[str, Any] = {"description": f"{field.doc} (a change: {field.change.text})"}
    if field.example:
        described["examples"] = [field.example]
    return {**described, "anyOf": [*_options(field.shape), EXPRESSION, _NULL]}


def _options(shape: Shape) -> list[dict[str, Any]]:
    """The schemas that a value of a shape may satisfy, beside an expression."""
    match shape:
        case Text(refers):
            return [
                {
                    "type": "string",
                    **(
                        {"pattern": f"^({NAME.pattern})$|\\$\\{{\\{{"} if refers is not None else {}
                    ),
                }
            ]
        case Whole(least, most):
            bounds = {"minimum": least, "maximum": most}
            given = {key: bound for key, bound in bounds.items() if bound is not None}
            return [{"type": "integer", **given}]
        case Number():
            return [{"type": "number"}]
        case Flag():
            return [{"type": "boolean"}]
        case Choice():
            return [{"enum": list(shape.words)}]
        case Kind():
            others = {"type": "string", "pattern": f"^({NAME.pattern})$"}
            return [{"enum": list(shape.words)}, others]
        case Measure(of):
            number = [{"type": "integer", "minimum": 0}] if of is Records else []
            return [{"type": "string", "pattern": of.PATTERN}, *number]
        case Several(of):
            one = [*_options(of), EXPRESSION]
            return [*one[:-1], {"type": "array", "items": {"anyOf": one}}]
        case Table(of):
            values = {"anyOf": [*_options(of), EXPRESSION]}
            return [{"type": "object", "additionalProperties": values}]
        case Record():
            whole = [{"$ref": f"#/$defs/{shape.of.__name__.lower()}"}]
            return whole + (_options(shape.field(shape.short).shape) if shape.short else [])
        case Either(options):
            return [schema for option in options for schema in _options(option)]
