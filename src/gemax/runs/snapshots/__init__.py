"""Snapshots of a run for `gemax view`: a few small files that training writes, and that the page only reads."""
