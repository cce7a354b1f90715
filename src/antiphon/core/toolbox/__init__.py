"""The tools of a request: which are offered, what a call must follow, and how they are named."""
