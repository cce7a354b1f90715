"""How much runs at once, and who is next."""
