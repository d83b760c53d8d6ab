from dataclasses import fields
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from gemax.settings import check_fields
from gemax.training.config import SECTION_OF, SECTIONS, Config, config_from_json
from gemax.training.presets import configure

CHOICES = {
    (section, name): get_args(hint)
    for section, kind in SECTIONS.items()
    for name, hint in get_type_hints(kind).items()
    if get_origin(hint) is Literal
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_envs": 4}, "num_envs must be at least 8 for gem.*got 4"),
        ({"updates": 0}, "updates must be at least 1; got 0"),
        ({"unroll_period": 40}, r"unroll_period must be at most unroll_length \(30\); got 40"),
        ({"past_visits_decay": 1.5}, r"past_visits_decay must lie in \[0, 1\]; got 1.5"),
        ({"discount": 1.5}, r"discount must lie in \[0, 1\]; got 1.5"),
        ({"vtrace_lambda": -0.1}, r"vtrace_lambda must lie in \[0, 1\]; got -0.1"),
        ({"alpha": 2.0}, "alpha must be below 2, where 1 is Shannon; got 2.0"),
        ({"similarity_scale": 0.0}, "similarity_scale must be positive and finite; got 0.0"),
        ({"learning_rate": float("inf")}, "learning_rate must be positive and finite; got inf"),
        ({"episodic_weight": 1.5}, r"episodic_weight must lie in \[0, 1\]; got 1.5"),
        ({"episode_memory_size": 0}, "episode_memory_size must be at least 1; got 0"),
        ({"num_negatives": -1}, "num_negatives must be zero or more, and finite; got -1"),
        ({"torso_size": 0}, "torso_size must be at least 1; got 0"),
    ],
)
def test_invalid_settings_are_refused_with_field_and_bound(changes, message):
    with pytest.raises(ValueError, match=message):
        Config().replace(**changes)


@pytest.mark.parametrize(("section", "name"), CHOICES)
def test_unknown_choices_are_refused_with_the_allowed_ones(section, name):
    settings = SECTIONS[section]()
    object.__setattr__(settings, name, "nonsense")  # past the type checker that tests put around everything
    allowed = ", ".join(CHOICES[section, name])
    with pytest.raises(ValueError, match=f"{name} must be one of {allowed}; got 'nonsense'"):
        check_fields(settings)


def test_field_names_are_unique_over_all_sections():
    names = [field.name for kind in SECTIONS.values() for field in fields(kind)]
    assert len(names) == len(set(names)) == len(SECTION_OF)


def test_a_configuration_survives_its_file():
    config = configure("sixteen-leaves", seed=7)
    assert config_from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("section", "field", "value", "message"),
    [
        ("agent", "learning_speed", 1, r"unknown fields \(agent.learning_speed\)"),
        ("pilot", "seed", 1, r"unknown fields \(pilot.seed\)"),
    ],
)
def test_unknown_fields_of_a_file_are_refused_by_name(section, field, value, message):
    content = Config().to_json()
    content[section] = {**content.get(section, {}), field: value}
    with pytest.raises(ValueError, match=message):
        config_from_json(content)


def test_missing_fields_of_a_file_are_refused_by_name():
    content = Config().to_json()
    del content["run"]["seed"]
    with pytest.raises(ValueError, match=r"lacks some \(run.seed\)"):
        config_from_json(content)


def test_replace_finds_the_section_of_each_field():
    config = Config().replace(num_envs=16, learning_rate=0.5, alpha=1.5, seed=3)
    changed = (config.env.num_envs, config.agent.learning_rate, config.intrinsic.alpha, config.run.seed)
    assert changed == (16, 0.5, 1.5, 3)
    assert config.flat == Config().flat | {"num_envs": 16, "learning_rate": 0.5, "alpha": 1.5, "seed": 3}
