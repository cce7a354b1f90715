"""The inspector: what clients sent, what engines got, and what came back, for a person who looks on."""
