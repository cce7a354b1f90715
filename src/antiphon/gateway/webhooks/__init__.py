"""Messages to webhooks about what has ended: written with the end, signed, and sent until they are accepted."""
