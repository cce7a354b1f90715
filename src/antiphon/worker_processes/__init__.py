"""Several processes that serve one gateway: a supervisor starts and replaces them, and passes messages between them."""
