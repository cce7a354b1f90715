"""Schemas and grammars, and the work on them that may be slow, as data that a process can be given."""
