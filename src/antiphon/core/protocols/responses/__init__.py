"""The Responses API: its fields, its limits, and the errors that name them."""
