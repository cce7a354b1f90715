"""The inputs of an exchange, kept so that it can be run again."""
