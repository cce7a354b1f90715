"""Usage, keys made by a command, and messages to webhooks: their tables, and the operations of both databases."""
