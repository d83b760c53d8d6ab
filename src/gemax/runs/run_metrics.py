"""The metrics of a run as arrays by name."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gemax.extras import require
from gemax.settings import did_you_mean

if TYPE_CHECKING:
    import pandas


class RunMetrics(Mapping[str, Float[np.ndarray, " lines"]]):
    """One array per metric, with one entry per line of `metrics.jsonl`. Unknown values are NaN.

    Args:
        lines: The lines of `metrics.jsonl`.
    """

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self._lines = lines
        self._names = list(dict.fromkeys(name for line in lines for name in line))

    def __getitem__(self, name: str) -> Float[np.ndarray, " lines"]:
        """Returns the values of a metric."""
        if name not in self._names:
            raise KeyError(f"there is no metric {name!r}.{did_you_mean(name, self._names)}")
        return np.array([np.nan if line.get(name) is None else line[name] for line in self._lines], float)

    def __iter__(self) -> Iterator[str]:
        """Yields the names of the metrics."""
        return iter(self._names)

    def __len__(self) -> int:
        """Returns the number of metrics."""
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self._names)} metrics of {len(self._lines)} updates: {', '.join(self._names)}>"

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns a data frame with a column per metric, indexed by update. Needs pandas."""
        require("pandas", "to_pandas")
        import pandas

        return pandas.DataFrame(dict(self)).set_index("update")
