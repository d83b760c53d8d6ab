"""Other people's environments, stepped on the host: Gymnasium's, and whatever follows its interface."""
