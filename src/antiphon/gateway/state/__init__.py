"""What is kept of a response: its record, its owner, its conversation, its seals."""
