"""One gateway put together: its parts from its settings, how it starts, reloads and ends."""
