"""The reference page of the pipeline language, made from the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from millrace.model.shape import Field, Record, record_of, records_in
from millrace.model.text import written
from millrace.spec.document import TOP_KEYS
from millrace.spec.expected import expected
from millrace.spec.load import SHAPES

INTRO: Final = """\
# The pipeline file, field by field

This page is made from the model (`make docs`); `millrace schema` gives the same as JSON Schema.
"A change" says what changing a field of something that runs costs: *in place* (nothing stops),
*rescale*, *restart with state*, *replace* (started anew from its positions), *state lost*.
Where a short form is named, a bare value stands for that field: `from: raw` is
`from: [{stream: raw}]`. A list of one may be written without its brackets. Every value may be an
expression, `${{ ... }}` in [CEL](https://cel.dev); one that is the whole value keeps its type.

## The file
"""


def reference() -> str:
    """Return the page as Markdown."""
    lines = [INTRO, "| key | what it is for |", "|---|---|"]
    lines += [f"| `{key}` | {doc} |" for key, doc in TOP_KEYS.items()]
    lines += [
        "",
        "Things of a section may repeat with `for: {variable: [values]}`; their names then",
        "hold the variable: `clean-${{ edge }}`.",
        "",
    ]
    seen: set[type] = set()
    for section, cls in SHAPES.items():
        for record in records_in(record_of(cls)):
            if record.of not in seen:
                seen.add(record.of)
                level = "##" if record.of is cls else "###"
                lines += [*_section(record, level, section if record.of is cls else "")]
    return "\n".join(lines).rstrip() + "\n"


def _section(record: Record, level: str, section: str) -> Iterator[str]:
    title = f"{section}: {record.of.__name__}" if section else record.of.__name__
    yield f"{level} {title}"
    yield ""
    yield " ".join((record.of.__doc__ or "").split())
    if record.short:
        yield f"Short form: its `{record.short}`."
    yield ""
    yield "| field | meaning | value | default | a change |"
    yield "|---|---|---|---|---|"
    for field in record.fields:
        yield _row(field)
    yield ""


def _row(field: Field) -> str:
    meaning = field.doc + (f", for example `{field.example}`" if field.example else "")
    cells = (f"`{field.key}`", meaning, expected(field.shape), _default(field), field.change.text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: Field) -> str:
    if field.required:
        return "(required)"
    value = written(field.default) if field.default is not None else None
    if value in (None, "", [], {}):
        return ""
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{shown}`"
