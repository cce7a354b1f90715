"""The commands for whoever serves a team: keys, and what they use."""
