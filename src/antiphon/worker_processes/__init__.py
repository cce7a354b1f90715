"""Places of version 0.1 that its running processes start by name (see docs/upgrades.md). They go after one release."""
