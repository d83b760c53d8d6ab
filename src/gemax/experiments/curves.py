"""The curves of an experiment as one CSV file: what is drawn, number by number."""

import csv
import io

from gemax.experiments.experiment import Runs
from gemax.experiments.plots import buckets_of

COLUMNS = ("seconds", "return", "visitation_entropy", "coverage")


def curves_csv(runs: Runs) -> str:
    """A line for each label, seed and bucket: the means within the bucket, which ends at `update`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["label", "seed", "update", "frames", *COLUMNS])
    for label, records in runs.items():
        columns = [buckets_of(records, name)[1] for name in COLUMNS]
        updates, _ = buckets_of(records, COLUMNS[0])
        for row, record in enumerate(records):
            for bucket, update in enumerate(updates):
                frames = round(update * record.config.frames_per_update)
                values = [f"{column[row, bucket]:.5g}" for column in columns]
                writer.writerow([label, record.config.seed, round(update), frames, *values])
    return text.getvalue()
