"""Background responses: made by workers under leases, told through the store, and followed by whoever wants to."""
