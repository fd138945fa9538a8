"""Holds what is wanted, orders the steps between sites, and says how far they are."""
