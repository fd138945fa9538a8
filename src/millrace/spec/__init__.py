"""The pipeline language: from a file to the desired state, with every problem at once."""

from millrace.spec.formats import FileFormat
from millrace.spec.load import Loaded, load, load_text

__all__ = ["FileFormat", "Loaded", "load", "load_text"]
