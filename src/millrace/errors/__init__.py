"""What can go wrong, as data and as exceptions; the lowest layer.

MillraceError
+-- SpecError         a pipeline file has problems; carries every Diagnostic
+-- ExportError       a format can't say what the pipeline holds; carries every Diagnostic
+-- BrokenInvariant   a promise of Millrace itself failed: please report it
+-- OperationFailed   something in the world did not work; says what to do, and if to try again
"""

from millrace.errors.diagnostic import Diagnostic, Location, Problems, Severity, nearest
from millrace.errors.tree import (
    BrokenInvariant,
    ExportError,
    MillraceError,
    OperationFailed,
    SpecError,
)

__all__ = [
    "BrokenInvariant",
    "Diagnostic",
    "ExportError",
    "Location",
    "MillraceError",
    "OperationFailed",
    "Problems",
    "Severity",
    "SpecError",
    "nearest",
]
