"""What engines answer that no exchange reads, and what the gateway answers in their place."""
