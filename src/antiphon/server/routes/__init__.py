"""The routes of the HTTP server, one module for each group of them."""
