"""Pilot descriptions as Pilot-Streaming has them: one map of keys, or a list of such maps."""

from __future__ import annotations

from typing import Any, Final

from millrace.errors import Problems
from millrace.spec.foreign import known_fields
from millrace.spec.node import Node

#: Their names for our fields; the first two are two names of one thing.
FIELDS: Final = {
    "service_url": "resource",
    "resource": "resource",
    "number_cores": "cores",
    "number_of_nodes": "nodes",
    "cores_per_node": "cores_per_node",
    "type": "framework",
    "queue": "queue",
    "walltime": "walltime",
    "project": "project",
    "working_directory": "working_directory",
    "config_name": "config",
    "parent": "parent",
}
#: A name, so that another description can have it as its parent.
NAMES: Final = ("name", "id")
#: The format has no place for a pipeline's name.
PIPELINE: Final = "pilots"


def is_pilot_description(node: Node) -> bool:
    """Whether a document is a pilot description, or a list of them."""
    maps = node.value if isinstance(node.value, list) else [node]
    return any(
        ("service_url" in item.map or "resource" in item.map)
        and ("number_cores" in item.map or "number_of_nodes" in item.map or "type" in item.map)
        for item in maps
    )


def native_of_pilots(node: Node, problems: Problems) -> Node | None:
    """Translate descriptions to a native document that has only pilots."""
    nodes = node.value if isinstance(node.value, list) else [node]
    pilots: dict[str, Any] = {}
    places: dict[str, tuple[int, int]] = {}
    for number, item in enumerate(nodes, 1):
        fields = known_fields(item, "a pilot description", (*FIELDS, *NAMES), problems)
        if fields is None:
            return None
        named = next((fields[key] for key in NAMES if key in fields), None)
        name = f"pilot-{number}"
        if named is not None and isinstance(named.value, str):
            name = named.value
        elif named is not None:
            problems.error(
                "wrong-type",
                "a pilot's name must be a text",
                named.at,
                found=named.describe(),
                hint="put it in quotes",
            )
        if name in pilots:
            problems.error(
                "declared-twice",
                f"two pilots are called {name!r}",
                item.at,
                hint="give each a `name`",
            )
            continue
        pilots[name] = _pilot(item, fields, problems)
        places[name] = (item.line, item.column)
    native = node.like({"pipeline": PIPELINE})
    native.map["pilots"] = Node(pilots, node.file, node.line, node.column, places)
    return native


def _pilot(item: Node, fields: dict[str, Node], problems: Problems) -> Node:
    pilot: dict[str, Any] = {}
    if "service_url" in fields and "resource" in fields:
        problems.error(
            "two-names",
            "service_url and resource are two names of one field",
            fields["resource"].at,
            hint="keep one of them",
        )
    for key, value in fields.items():
        if key in NAMES:
            continue
        if key == "walltime" and isinstance(value.value, int):
            pilot["walltime"] = value.like(f"{value.value} min")
        elif FIELDS[key] == "resource" and str(value.value).startswith("fork://"):
            pilot["resource"] = value.like("local://" + str(value.value).removeprefix("fork://"))
        else:
            pilot[FIELDS[key]] = value
    return item.like(pilot)
