"""What is known of engines and models: facts, dialects, failures, and the help that a model needs."""
