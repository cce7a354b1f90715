"""The probes: small questions to an engine whose answers tell what it can do. `engines.probing` holds their table."""
