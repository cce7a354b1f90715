"""What a small model gets done: tasks for Codex, and questions that one of ten tools answers."""
