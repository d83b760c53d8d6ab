"""The agent: how it acts, and what its actor-critic learns from."""
