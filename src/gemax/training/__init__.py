"""The training loop and the parts it needs. Nothing in this package writes files or prints."""
