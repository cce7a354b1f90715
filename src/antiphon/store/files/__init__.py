"""Uploaded files, vector stores and their chunks, in any database."""
