"""Plug-ins for what executes jobs."""
