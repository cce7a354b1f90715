"""Containers: where code of a model runs, with its files and its state. A container lives on one gateway, and not for long."""
