"""The events of a response: typed, numbered, and encoded last of all."""
