"""Files as they go to a coordinator: complete, with the versions of their code; plans kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.cli.output import Output, loaded_file, required
from millrace.client import Client
from millrace.errors import OperationFailed
from millrace.spec import FileFormat
from millrace.wire import pipeline_document

_MARK = "millrace-plan"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file: its native document, the folder of its code, and whether that holds any."""

    document: dict[str, Any]
    folder: Path
    code: bool

    @property
    def name(self) -> str:
        """The pipeline."""
        return str(self.document["pipeline"])

    def uploaded(self, client: Client) -> str | None:
        """Send the code where it is not there yet; returns what stands for it, if there is any."""
        return client.upload_code(self.folder) if self.code else None


def prepared(
    file: str, profile: str | None, output: Output, file_format: FileFormat | None = None
) -> Prepared:
    """Return a file that is in order; shows every problem and ends for another."""
    from millrace.client.code import versioned  # noqa: PLC0415 - most commands do without

    pipeline = required(loaded_file(file, profile, file_format), output)
    folder = Path(file).absolute().parent if file != "-" else Path.cwd()
    complete, code = versioned(pipeline, folder)
    return Prepared(pipeline_document(complete), folder, code)


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan that was kept: the file as it was, and the revision that it is about."""

    prepared: Prepared
    revision: int
    view: dict[str, Any]

    def text(self) -> str:
        """Return what is written to a file."""
        document = {
            _MARK: 1,
            "pipeline": self.prepared.name,
            "revision": self.revision,
            "folder": str(self.prepared.folder),
            "code": self.prepared.code,
            "document": self.prepared.document,
            "plan": self.view,
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> SavedPlan:
        """Return a plan that was kept; raises where it is none, or its code is another now."""
        try:
            document = json.loads(path.read_text("utf-8"))
            if document[_MARK] != 1:
                raise ValueError
            folder, code = Path(document["folder"]), bool(document["code"])
            file = Prepared(dict(document["document"]), folder, code)
            saved = cls(file, int(document["revision"]), dict(document["plan"]))
        except OSError as error:
            raise OperationFailed(
                "no-plan", f"{path} can't be read: {error.strerror}", _MAKE
            ) from None
        except (ValueError, KeyError, TypeError):
            raise OperationFailed("no-plan", f"{path} holds no plan", _MAKE) from None
        saved.check_code()
        return saved

    def check_code(self) -> None:
        """Raise where the code is not what it was when the plan was made."""
        from millrace.client.code import versioned  # noqa: PLC0415
        from millrace.spec import load_text  # noqa: PLC0415
        from millrace.spec.yaml_writer import write_yaml  # noqa: PLC0415

        if not self.prepared.code:
            return
        plain = {name: dict(job) for name, job in self.prepared.document["jobs"].items()}
        kept = {name: job.pop("version", None) for name, job in plain.items()}
        loaded = load_text(write_yaml({**self.prepared.document, "jobs": plain}), "<plan>")
        now, _ = versioned(loaded.required(), self.prepared.folder)
        changed = [
            name
            for name, job in now.jobs.items()
            if job.version is not None and _made(kept[name]) and job.version != kept[name]
        ]
        if changed:
            raise OperationFailed(
                "code-changed",
                f"the code of {', '.join(changed)} changed since the plan was made",
                _MAKE,
            )


_MAKE = "make one: millrace plan FILE --out plan.json"


def _made(version: str | None) -> bool:
    """Whether a version was made from files; people call theirs otherwise."""
    return version is not None and len(version) == 16 and set(version) <= set("0123456789abcdef")
