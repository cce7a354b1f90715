"""An engine's deltas become the items of a response, and these its events."""
