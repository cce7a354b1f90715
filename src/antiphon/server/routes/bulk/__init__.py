"""Bulk work: batches of requests, and what is uploaded for it."""
