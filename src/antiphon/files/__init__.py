"""Uploaded files: what they are, where their contents are, and the text in them."""
