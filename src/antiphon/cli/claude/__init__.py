"""`antiphon claude`: Claude Code in an environment that fits the gateway and its model."""
