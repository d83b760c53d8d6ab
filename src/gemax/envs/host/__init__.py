"""Gymnasium environments, stepped in Python on the host."""
