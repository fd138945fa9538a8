"""Spark: a driver process that hosts many jobs, and the agent's side of it."""
