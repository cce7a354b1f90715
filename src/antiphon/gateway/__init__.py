"""Core meets I/O: responses run to their end, are recorded, continued and shut down here."""
