"""The settings of a gateway: their types, sources, errors and keys."""
