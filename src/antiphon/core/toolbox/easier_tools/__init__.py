"""Hard tools of clients as easy functions, for small models. adaptations.py: the table; patches.py, commands.py: its rows."""
