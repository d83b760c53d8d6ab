import numpy as np
import pytest

from gemax.errors import NumericalError
from gemax.training.nonfinite import check_finite, check_not_all_frozen


@pytest.mark.fault(18)
def test_ten_consecutive_nonfinite_updates_stop_the_run_and_name_the_term():
    history = {
        "consecutive_nonfinite": np.asarray([[8.0, 9.0, 10.0, 11.0]]),
        "gem_loss": np.full((1, 4), np.nan),
        "value_loss": np.ones((1, 4)),
    }
    message = "10 consecutive updates were not finite, from update 14 on; not finite: gem_loss"
    with pytest.raises(NumericalError, match=message):
        check_finite(history, last_update=24)
    recovered = {**history, "consecutive_nonfinite": np.asarray([[8.0, 9.0, 0.0, 0.0]])}
    check_finite(recovered, last_update=24)


def test_a_group_stops_once_all_seeds_are_frozen_and_names_the_term():
    frozen = {"consecutive_nonfinite": 10.0, "agent_loss": np.nan, "return": 0.0}
    training = {"consecutive_nonfinite": 9.0, "agent_loss": np.nan, "return": 0.0}
    check_not_all_frozen([frozen, None, training], np.asarray([14, 10, 14]))
    message = r"all 3 seeds are frozen: 10 consecutive .* from update 5 on; not finite: agent_loss"
    with pytest.raises(NumericalError, match=message):
        check_not_all_frozen([frozen, None, None], np.asarray([14, 10, 13]))
