"""The probes: small requests to an engine whose answers show what it can do. `engines.prober` has their table."""
