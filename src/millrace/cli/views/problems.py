"""Problems of a file as a coordinator tells them, as those that are shown for a file here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.errors import Diagnostic, Severity


def diagnostics_of(document: Mapping[str, Any]) -> list[Diagnostic]:
    """Return the problems that an answer holds; none where it holds none.

    Their places are those of the document that was sent, which nobody sees, and are left out.
    """
    found = document.get("problems")
    if not isinstance(found, list):
        return []
    return [_diagnostic(item) for item in found if isinstance(item, dict)]


def _diagnostic(item: Mapping[str, Any]) -> Diagnostic:
    def text(key: str) -> str:
        return str(item.get(key) or "")

    return Diagnostic(
        text("code"),
        text("message"),
        found=text("found"),
        expected=text("expected"),
        nearest=text("nearest"),
        hint=text("hint"),
        severity=Severity.WARNING if text("severity") == "warning" else Severity.ERROR,
    )
