"""How the request of a client is read, and how its answer is written."""
