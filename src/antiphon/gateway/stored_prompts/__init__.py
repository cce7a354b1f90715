"""Prompts that the operator keeps in files, and that requests use by their ids."""
