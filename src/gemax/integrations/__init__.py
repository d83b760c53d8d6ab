"""Other people's libraries: the worlds as they expect them. Each needs an extra, named in its error."""
