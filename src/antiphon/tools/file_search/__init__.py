"""The tool `file_search`: what it searches, and its calls."""
