"""The Exchange: one response, from the request to its terminal event."""
