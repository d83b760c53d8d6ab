"""Worlds to explore: pure functions of JAX, to be compiled, vectorised and scanned."""
