"""What the parts that run child processes have in common. What only one of them needs is there."""
