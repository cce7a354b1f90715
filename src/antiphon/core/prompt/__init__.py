"""The items of a request become the chat request of an engine."""
