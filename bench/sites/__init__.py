"""Measurements of many sites: chains over six of them, and what a coordinator costs."""
