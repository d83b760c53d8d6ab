"""Every file that is written or read."""
