"""Reads files inside one folder only. Links that lead out of the folder are refused."""

from pathlib import Path


class RefusedError(ValueError):
    """A path leads out of the folder that the page shows."""


class Confined:
    """Access to the files below a folder.

    Args:
        root: The folder. It may itself be reached by a link.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def check(self, path: Path) -> Path:
        """Returns the path if it lies in the folder with all links followed.

        Raises:
            RefusedError: It lies elsewhere.
        """
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, or no valid name
            raise RefusedError(f"{path.name} cannot be followed: {error}.") from error
        if not resolved.is_relative_to(self.root):
            raise RefusedError(f"{path.name} is a link out of the folder, so it is not read.")
        return path

    def contains(self, path: Path) -> bool:
        """Returns whether the path lies in the folder."""
        try:
            self.check(path)
        except RefusedError:
            return False
        return True

    def read_bytes(self, path: Path) -> bytes:
        """Reads a file.

        Raises:
            RefusedError: The file lies outside the folder.
            OSError: It cannot be read.
        """
        return self.check(path).read_bytes()
