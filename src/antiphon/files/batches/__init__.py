"""Batches of requests: what their owners see of them, their input files, and the files that come of them."""
