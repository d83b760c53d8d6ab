"""Training: from a configuration to a generator of states and metrics. No files, no terminal."""
