"""`antiphon connect`: what a client needs to use the gateway that is running. One row for each client, in `table.py`."""
