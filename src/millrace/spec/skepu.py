"""SkePU-Streaming's workflow files: hosts, streams and tasks with their variants."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from millrace.errors import Diagnostic, Problems
from millrace.spec.foreign import known_fields
from millrace.spec.node import Node
from millrace.spec.skepu_grammar import parse
from millrace.spec.skepu_nodes import BLOCK, Builder, Unknown, tell_unknown
from millrace.spec.source import Source, Sources

#: What tasks and streams take from the pipeline, the application or the file around them.
INHERITED: Final = ("output_buffer_size", "input_buffer_size", "encryption", "model", "transfer")
HOST: Final = {
    "host": ("host",),
    "executor_affinity": ("cores",),
    "crosscompile": ("toolchain", "cross_compile"),
    "sysroot": ("toolchain", "sysroot"),
    "cxx": ("toolchain", "compiler"),
    "arch": ("toolchain", "arch"),
}
STREAM_KEYS: Final = ("id", "model", "port", "encryption", "buffer_size", "transfer")
TASK_KEYS: Final = (
    "id",
    "host",
    "input_streams",
    "output_streams",
    "cores",
    "variants",
    "output_buffer_size",
    "input_buffer_size",
)
VARIANT_KEYS: Final = ("id", "backend", "build", "default", BLOCK)
BUILD_KEYS: Final = ("type", "source", "output", "flags")
ENCRYPTIONS: Final = {"CurveZMQ": "curve", "none": "none"}
MODELS: Final = {"TCP": "zmq"}
#: Constants may be made of constants, this many deep.
MOST_PASSES: Final = 20
MOST_CORES: Final = 4_096


def native_of_skepu(source: Source, sources: Sources, problems: Problems) -> Node | None:
    """Translate a workflow file to the native document, places kept."""
    tree = parse(source, problems)
    if tree is None:
        return None
    known: dict[str, Any] = {}
    for _ in range(MOST_PASSES):
        found = _known(Builder(sources, Problems(), known).build(tree, source))
        if found == known:
            break
        known = found
    before = problems.total
    root = Builder(sources, problems, known).build(tree, source)
    if problems.total == before:  # what is missing may stand in a file that could not be read
        tell_unknown(root, known, problems)
    native = _Translation(problems).native(root)
    return native if problems.total == before else None


def _ids(node: Node | None) -> list[tuple[str, Node]]:
    """The members of a list that have an id."""
    items = node.value if node is not None and isinstance(node.value, list) else []
    return [
        (item.map["id"].value, item)
        for item in items
        if "id" in item.map and isinstance(item.map["id"].value, str)
    ]


def _pipelines(root: Node) -> list[Node]:
    workflow = root.map.get("application", root).map.get("workflow")
    items = workflow.value if workflow is not None and isinstance(workflow.value, list) else []
    return [item for item in items if isinstance(item.value, dict)]


def _known(root: Node) -> dict[str, Any]:
    """What references may name: hosts with their properties, streams, constants."""
    known: dict[str, Any] = {}
    for name, host in _ids(_resources(root)):
        known[name] = {
            "id": name,
            **{
                key: item.value
                for key, item in host.map.items()
                if not isinstance(item.value, dict | list)
            },
        }
    for part in _pipelines(root):
        known.update((name, {"id": name}) for name, _ in _ids(part.map.get("streams")))
        known.update(_constants(part))
    known.update(_constants(root))
    known.update(_constants(root.map.get("application")))
    return known


def _resources(root: Node) -> Node | None:
    resources = root.map.get("resources")
    return resources.map.get("hosts") if resources is not None else root.map.get("hosts")


def _constants(node: Node | None) -> dict[str, Any]:
    """Constants are numbers, words and texts; lists of lists of them could grow without end."""
    if node is None:
        return {}
    return {
        name: item.map["value"].value
        for name, item in _ids(node.map.get("constants"))
        if "value" in item.map and not isinstance(item.map["value"].value, list | dict)
    }


@dataclass(slots=True)
class _Translation:
    """Carries a workflow over, part by part; a pipeline block becomes a group."""

    problems: Problems
    sites: dict[str, Any] = field(default_factory=dict)
    streams: dict[str, Any] = field(default_factory=dict)
    jobs: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    places: dict[tuple[str, str], Node] = field(default_factory=dict)

    def native(self, root: Node) -> Node | None:
        fields = known_fields(
            root, "a workflow file", ("resources", "application", *INHERITED), self.problems
        )
        application = (fields or {}).get("application")
        for host in self._list(_resources(root), "hosts"):
            self._host(host)
        if application is None:
            self.problems.error(
                "missing-key",
                "the file has no application",
                root.at,
                hint="add `application { id: NAME workflow: [ ... ] }`",
            )
            return None
        top = (
            known_fields(
                application,
                "an application",
                ("id", "constants", "workflow", BLOCK, *INHERITED),
                self.problems,
                ("id", "workflow"),
            )
            or {}
        )
        for pipeline in self._list(top.get("workflow"), "workflow"):
            self._pipeline(pipeline, [application, root])
        native = root.like({"pipeline": top.get("id"), "groups": self.groups})
        for section in ("sites", "streams", "jobs"):
            things: dict[str, Node] = getattr(self, section)
            keys = {
                name: (self.places[section, name].line, self.places[section, name].column)
                for name in things
            }
            native.map[section] = Node(dict(things), root.file, root.line, root.column, keys)
        return native

    def _list(self, node: Node | None, what: str) -> list[Node]:
        if node is None:
            return []
        if isinstance(node.value, list):
            return node.value
        self.problems.error(
            "wrong-type",
            f"{what} must be a list",
            node.at,
            found=node.describe(),
            hint="write [ ] around what belongs to it",
        )
        return []

    def _new(self, section: str, node: Node) -> str | None:
        """The id of a thing, if it is new in its section."""
        named = node.map.get("id")
        if named is None or not isinstance(named.value, str):
            at = named.at if named is not None else node.at
            self.problems.error(
                "missing-key",
                f"one of the {section} has no id",
                at,
                expected="a word",
                hint="add `id: NAME`",
            )
            return None
        first = self.places.setdefault((section, named.value), named)
        if first is not named:
            self.problems.add(
                Diagnostic(
                    "declared-twice",
                    f"two {section} are called {named.value!r}",
                    named.at,
                    hint="rename one of them",
                    related=((first.at, "the first one"),),
                )
            )
            return None
        return named.value

    def _host(self, node: Node) -> None:
        fields = known_fields(node, "a host", ("id", *HOST), self.problems)
        name = self._new("sites", node) if fields is not None else None
        if fields is None or name is None:
            return
        site: dict[str, Any] = {"engine": "process"}
        for key, value in fields.items():
            if key == "id":
                continue
            into = site
            *parents, last = HOST[key]
            for parent in parents:
                into = into.setdefault(parent, {})
            into[last] = value.like(_cores(value.value)) if key == "executor_affinity" else value
        self.sites[name] = node.like(site)

    def _pipeline(self, node: Node, around: list[Node]) -> None:
        keys = ("id", "streams", "tasks", "constants", BLOCK, *INHERITED)
        fields = known_fields(node, "a pipeline", keys, self.problems, ("id",))
        if fields is None or not isinstance(fields.get("id", node).value, str):
            return
        group = str(fields["id"].value)
        self.groups[group] = {}
        scopes = [node, *around]
        for stream in self._list(fields.get("streams"), "streams"):
            self._stream(stream, group, scopes)
        for task in self._list(fields.get("tasks"), "tasks"):
            self._task(task, group, scopes)

    def _stream(self, node: Node, group: str, scopes: list[Node]) -> None:
        fields = known_fields(node, "a stream", STREAM_KEYS, self.problems)
        name = self._new("streams", node) if fields is not None else None
        if fields is None or name is None:
            return
        stream: dict[str, Any] = {"group": group, "format": "raw"}
        for key, into, words in (
            ("model", "transport", MODELS),
            ("encryption", "encryption", ENCRYPTIONS),
        ):
            value = _inherited(key, node, scopes)
            if value is not None:
                stream[into] = self._word(value, key, words)
        stream.setdefault("transport", "zmq")
        for key, into in (("port", "port"), ("buffer_size", "buffer")):
            if key in fields:
                stream[into] = fields[key]
        transfer = _inherited("transfer", node, scopes)
        if transfer is not None:
            stream["transfer"] = transfer
        self.streams[name] = node.like(stream)

    def _word(self, node: Node, key: str, words: dict[str, str]) -> Node:
        value: Any = node.value
        if isinstance(value, Unknown):
            return node  # told already
        if isinstance(value, str) and value in words:
            return node.like(words[value])
        self.problems.error(
            "wrong-type",
            f"{key} can't be {node.describe()}",
            node.at,
            expected="one of " + ", ".join(words),
            hint="write one of " + ", ".join(words),
        )
        return node

    def _task(self, node: Node, group: str, scopes: list[Node]) -> None:
        fields = known_fields(node, "a task", TASK_KEYS, self.problems, ("host",))
        name = self._new("jobs", node) if fields is not None else None
        if fields is None or name is None:
            return
        job: dict[str, Any] = {"group": group, "process": {}}
        if "host" in fields:
            job["site"] = _named(fields["host"])
        for key, into in (("input_streams", "from"), ("output_streams", "to")):
            if key in fields:
                job[into] = [_named(item) for item in self._list(fields[key], key)]
        sizes = {
            into: size
            for key, into in (("input_buffer_size", "input"), ("output_buffer_size", "output"))
            if (size := _inherited(key, node, scopes)) is not None
        }
        if sizes:
            job["buffers"] = sizes
        if "cores" in fields:
            job["pin"] = fields["cores"].like(_cores(fields["cores"].value))
        self._variants_differ(fields.get("variants"))
        variants = [self._variant(item) for item in self._list(fields.get("variants"), "variants")]
        if any(variants):
            job["variants"] = dict(item for item in variants if item is not None)
        self.jobs[name] = node.like(job)

    def _variants_differ(self, node: Node | None) -> None:
        seen: set[str] = set()
        for name, item in _ids(node):
            if name in seen:
                self.problems.error(
                    "declared-twice",
                    f"two variants are called {name!r}",
                    item.map["id"].at,
                    hint="rename one of them",
                )
            seen.add(name)

    def _variant(self, node: Node) -> tuple[str, Node] | None:
        fields = known_fields(node, "a variant", VARIANT_KEYS, self.problems, ("id",))
        if fields is None or "id" not in fields:
            return None
        if not isinstance(fields["id"].value, str):
            self.problems.error(
                "wrong-type",
                "the id of a variant must be a word",
                fields["id"].at,
                found=fields["id"].describe(),
                hint="write a name that the other variants don't have",
            )
            return None
        variant: dict[str, Any] = {
            key: fields[key] for key in ("backend", "default") if key in fields
        }
        if BLOCK in fields:
            variant["kind"] = fields[BLOCK]
        if "build" in fields:
            known_fields(fields["build"], "a build", (*BUILD_KEYS, BLOCK), self.problems)
            build = {key: value for key, value in fields["build"].map.items() if key != BLOCK}
            variant["build"] = fields["build"].like(build)
        return str(fields["id"].value), node.like(variant)


def _inherited(key: str, node: Node, scopes: list[Node]) -> Node | None:
    """A property of a thing, or of the nearest block around it that has one."""
    return next((scope.map[key] for scope in (node, *scopes) if key in scope.map), None)


def _named(node: Node) -> Node:
    """A reference to a host or stream as its name."""
    return node.map.get("id", node)


def _cores(value: Any) -> Any:
    """`"0"`, `"0,2"` or `"0-3"` as core numbers; anything else is told by its type."""
    if not isinstance(value, str):
        return value
    cores: list[int] = []
    for part in value.split(","):
        first, _, last = part.strip().partition("-")
        if not re.fullmatch(r"[0-9]{1,12}(-[0-9]{1,12})?", part.strip()):
            return value
        if not int(first) <= int(last or first) < int(first) + MOST_CORES:
            return value
        cores += range(int(first), int(last or first) + 1)
    return cores
