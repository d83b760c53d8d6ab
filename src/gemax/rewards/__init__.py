"""Intrinsic rewards: one interface, a file a method."""
