"""The paper's experiments: a file a figure, with its claim, its sweep, its numbers and its plot."""
