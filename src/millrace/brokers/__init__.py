"""Plug-ins for what carries streams."""
