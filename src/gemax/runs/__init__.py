"""Runs on disk: training sessions, metrics, checkpoints, plots and evaluation."""
