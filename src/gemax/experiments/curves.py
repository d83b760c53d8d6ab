"""Learning curves of an experiment as CSV."""

import csv
import io

from gemax.experiments.experiment import Runs
from gemax.experiments.plots import curve_buckets

COLUMNS = ("seconds", "return", "visitation_entropy", "coverage")


def curves_csv(runs: Runs) -> str:
    """Returns one line for each label, seed and bucket, with the means over the bucket that ends at `update`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["label", "seed", "update", "frames", *COLUMNS])
    for label, records in runs.items():
        (updates, *_), columns = zip(*(curve_buckets(records, name) for name in COLUMNS), strict=True)
        for seed, record in enumerate(records):
            for bucket, update in enumerate(updates):
                frames = round(update * record.config.frames_per_update)
                values = [f"{column[seed, bucket]:.5g}" for column in columns]
                writer.writerow([label, record.config.run.seed, round(update), frames, *values])
    return text.getvalue()
