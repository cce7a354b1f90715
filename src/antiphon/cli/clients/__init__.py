"""What the commands that run another program on the gateway have in common."""
