"""What can go wrong, as data and as exceptions; the lowest layer.

MillraceError
+-- SpecError         a pipeline file has problems; carries every Diagnostic
+-- ExportError       a format can't say what the pipeline holds; carries every Diagnostic
+-- BrokenInvariant   a promise of Millrace itself failed: please report it
"""

from millrace.errors.diagnostic import Diagnostic, Location, Problems, Severity, nearest
from millrace.errors.tree import BrokenInvariant, ExportError, MillraceError, SpecError

__all__ = [
    "BrokenInvariant",
    "Diagnostic",
    "ExportError",
    "Location",
    "MillraceError",
    "Problems",
    "Severity",
    "SpecError",
    "nearest",
]
