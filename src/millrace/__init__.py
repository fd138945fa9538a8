"""Millrace composes, deploys and adapts stream pipelines over many sites."""

__version__ = "0.1.0.dev0"
