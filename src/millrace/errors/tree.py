"""The exceptions; their tree is drawn in the package's docstring."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from millrace.errors.diagnostic import Diagnostic


class MillraceError(Exception):
    """The base of all that Millrace raises on purpose."""


class _WithDiagnostics(MillraceError):
    def __init__(
        self, diagnostics: Sequence[Diagnostic], sources: Mapping[str, str] | None = None
    ) -> None:
        self.diagnostics = tuple(diagnostics)
        self.sources = dict(sources or {})
        super().__init__("\n".join(f"{d.at}: {d.message}" for d in self.diagnostics))


class SpecError(_WithDiagnostics):
    """A pipeline file has problems: all of them, and the texts they stand in."""


class ExportError(_WithDiagnostics):
    """A format can't say something that the pipeline holds."""


class BrokenInvariant(MillraceError):
    """A promise of Millrace itself failed; nothing a user wrote should cause it."""


class OperationFailed(MillraceError):
    """Something in the world did not work: what, what to do, and whether trying again can help."""

    def __init__(self, code: str, message: str, hint: str = "", *, transient: bool = False) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        self.transient = transient
        super().__init__(message if not hint else f"{message} ({hint})")
