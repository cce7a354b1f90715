"""The lines of batches, run on what is left of the engines' places."""
