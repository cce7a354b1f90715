"""Chat Completions, as OpenAI's clients speak it."""
