"""Intrinsic rewards: one interface, one file per method."""
