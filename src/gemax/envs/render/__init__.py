"""Draws the environments as images."""
