"""Environments: pure JAX functions that can be compiled, vectorised and scanned; in `host`, Gymnasium environments."""
