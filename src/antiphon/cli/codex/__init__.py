"""`antiphon codex`: Codex with a configuration that fits the engine."""
