"""HTTP in and out, and nothing else."""
