"""The coordinator over HTTP: one application, its limits, and a server for it."""
