"""Experiments: declared measurements with a matrix, runs, a table, a plot, and links of sites."""
