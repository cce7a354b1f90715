"""Which chunks of a vector store fit a query: by words, by meaning, or by both."""
