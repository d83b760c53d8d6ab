"""The paper's experiments. Each figure has one file with its claim, sweep, numbers and plot."""
