"""Containers: a folder and a Python whose state lives on, for the code that models write."""
