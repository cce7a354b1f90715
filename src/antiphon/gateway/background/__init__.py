"""Background responses: run by workers under leases, stored event by event, and followed by any client of their owner."""
