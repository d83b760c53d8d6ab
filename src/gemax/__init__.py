"""Geometric entropy maximisation in JAX: agents that explore."""

__version__ = "0.1.0"
