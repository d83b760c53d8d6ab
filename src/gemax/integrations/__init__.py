"""Adapters to other libraries: Gymnasium, Stable-Baselines3 and Minari. Each needs an optional extra."""
