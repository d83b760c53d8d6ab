"""The paper as pure functions: arrays in, arrays out."""
