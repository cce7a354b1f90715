"""Many streams at once for a long time, with clients and a store that fail. `python -m soak --help`."""
