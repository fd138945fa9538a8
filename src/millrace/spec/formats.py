"""Which format a text has, and its document as native nodes whatever it was written in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from millrace.errors import Problems
from millrace.spec.node import Node
from millrace.spec.pilot_description import is_pilot_description, native_of_pilots
from millrace.spec.source import Source, Sources
from millrace.spec.speck import is_speck, native_of_speck
from millrace.spec.yaml_reader import read_yaml


class FileFormat(StrEnum):
    """The formats that load."""

    NATIVE = "native"
    SPECK = "speck"
    SKEPU = "skepu"
    PILOT = "pilot"


@dataclass(frozen=True, slots=True)
class Read:
    """A document as native nodes, and the format it came in."""

    node: Node | None
    format: FileFormat


#: What SkePU-Streaming's files have and neither JSON nor YAML has: an include, or a named block.
_SKEPU: Final = re.compile(
    r"^[ \t]*#include[ \t]+[\"<]"
    r"|^[ \t]*(?:\{[ \t]*)?(?:application|resources|workflow|pipeline)\s{0,80}\{",
    re.MULTILINE,
)
#: What JSON lets stand in a text as it is, and YAML takes for a line's end or refuses.
_FOREIGN: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ESCAPE: Final = re.compile(r"\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|.)", re.S)


def read_document(
    source: Source, problems: Problems, sources: Sources, wanted: FileFormat | None
) -> Read:
    """Parse a text and translate it to the native document's nodes."""
    if wanted is FileFormat.SKEPU or (wanted is None and _SKEPU.search(source.text)):
        from millrace.spec.skepu import native_of_skepu  # noqa: PLC0415 - the grammar is costly

        return Read(_texts(native_of_skepu(source, sources, problems)), FileFormat.SKEPU)
    node = parse_native(source, problems)
    if node is None:
        return Read(None, wanted or FileFormat.NATIVE)
    if wanted is FileFormat.SPECK or (wanted is None and is_speck(node)):
        return Read(_texts(native_of_speck(node, problems)), FileFormat.SPECK)
    if wanted is FileFormat.PILOT or (wanted is None and is_pilot_description(node)):
        return Read(_texts(native_of_pilots(node, problems)), FileFormat.PILOT)
    return Read(node, FileFormat.NATIVE)


def _texts(node: Node | None) -> Node | None:
    """Other formats have no expressions of ours: what looks like one is text."""
    work = [node] if node is not None else []
    while work:
        at = work.pop()
        at.done = True
        work += at.value.values() if isinstance(at.value, dict) else ()
        work += at.value if isinstance(at.value, list) else ()
    return node


def parse_native(source: Source, problems: Problems) -> Node | None:
    """Parse YAML, or the same document as JSON."""
    if source.text.lstrip()[:1] in ("{", "["):
        source = Source(source.name, _json_as_yaml(source.text), source.path)
    return read_yaml(source, problems)


def _json_as_yaml(text: str) -> str:
    """Bend what JSON has and YAML lacks: tabs, escaped slashes, halved characters."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text  # YAML with braces, or neither: the YAML parser says what is wrong
    text = _ESCAPE.sub(_escape, text.replace("\t", " "))
    return _FOREIGN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    found = match[1]
    if found == "/":
        return "/"
    if len(found) == 1:
        return match[0]
    high, low = int(found[1:5], 16), int(found[7:11], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"
