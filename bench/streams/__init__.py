"""How Millrace's streams compare with the same work written by hand: `python -m bench.streams`."""
