"""An engine's bytes become deltas: text, reasoning and calls."""
