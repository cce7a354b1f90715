"""How well a search finds, on texts that are fetched by the names of their packages."""
