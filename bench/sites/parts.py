"""The names of the parts, for who chooses among benchmarks."""

NAMES = ("chains", "store", "unchanged", "api", "idle")
