"""Antiphon's endpoints beside those of llama.cpp and LiteLLM: how they answer, before the same llama.cpp."""
