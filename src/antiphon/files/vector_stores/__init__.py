"""Vector stores: files divided into chunks, indexed, and searched."""
