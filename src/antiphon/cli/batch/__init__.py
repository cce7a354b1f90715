"""`antiphon batch`: a file of requests, or of prompts, worked through by a running gateway."""
