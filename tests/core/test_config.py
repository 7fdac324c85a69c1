"""Settings: each is checked where it is set, and the presets are the papers'."""

import contextlib
import copy
import dataclasses
import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hippo_core import config
from hippo_core.config import HippoConfig
from hippo_core.errors import ConfigError, HippoError

FIELDS = {field.name: field.type for field in dataclasses.fields(HippoConfig)}
BOOLEANS = [name for name, kind in FIELDS.items() if kind == "bool"]
WHOLE = [name for name, kind in FIELDS.items() if kind.startswith("int")]
NUMBERS = [n for n, kind in FIELDS.items() if kind.removesuffix(" | None") in ("int", "float")]
OPTIONS = {
    "method": config.Method,
    "expansion": config.Expansion,
    "triple_rendering": config.TripleRendering,
    "relation_count": config.RelationCount,
    "synonymy_on_related": config.RelatedSynonymy,
    "synonymy_weight": config.SynonymyWeight,
    "kept_score": config.KeptScore,
    "on_failure": ["go_on", "raise"],
}

above_0 = math.nextafter(0.0, 1.0)
above_1 = math.nextafter(1.0, 2.0)
below_1 = math.nextafter(1.0, 0.0)

# Per number: the values next to its borders, refused and taken.
BORDERS: dict[str, tuple[list[float], list[float]]] = {
    "synonymy_threshold": ([-0.5, 0, above_1, 2], [above_0, 0.5, 1]),
    "synonymy_limit": ([-1, 0], [above_0, 1e9]),
    "linked_triples": ([-1, 0], [1, 1000]),
    "context_weight": ([-1, -above_0, 1e7], [0, 0.5, 1e6]),
    "anchor_weight": ([-1, -above_0, 1e7], [0, 0.5, 1e6]),
    "meeting_weight": ([-1, -above_0, 1e7], [0, 0.5, 1e6]),
    "linking_margin": ([-1, -above_0], [0, 0.25, 10, None]),
    "second_hop": ([-1], [0, 3, 1000]),
    "second_hop_weight": ([-above_0, above_1], [0, 0.25, 1]),
    "recognition_candidates": ([-1, 0], [1, 1000]),
    "recognition_limit": ([-1, 0], [1, 1000]),
    "seed_phrases": ([-1, 0], [1, 1000]),
    "passage_weight": ([-1, -above_0], [0, 0.05, 10]),
    "ensemble_threshold": ([-above_1, above_1], [-1, 0, 1]),
    "ensemble_weight": ([-above_0, above_1], [0, 0.5, 1]),
    "neighbour_share": ([-above_0, above_1], [0, 0.5, 1]),
    "synonymy_min_length": ([-1], [0, 3, 100]),
    "damping": ([-above_0, 1, 1.5], [0, 0.5, below_1]),
    "ppr_tolerance": ([-1, 0, 1], [above_0, 1e-6, below_1]),
    "concurrency": ([-1, 0], [1, 64]),
    "embed_batch_size": ([-1, 0], [1, 4096]),
    "call_timeout": ([-1, 0, 1e7], [above_0, 5, 600.0, 1e6, None]),
    "tries": ([-1, 0, 11], [1, 4, 10]),
    "context_limit": ([-1, 0], [1, 8192, None]),
}
REFUSED = [(name, value) for name, (bad, _) in BORDERS.items() for value in bad]
TAKEN = [(name, value) for name, (_, good) in BORDERS.items() for value in good]


def complaint(**settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        HippoConfig(**settings)
    return str(caught.value)


def test_every_field_is_a_number_a_boolean_or_an_option_of_these_tests() -> None:
    assert set(NUMBERS) == set(BORDERS)
    assert {*NUMBERS, *BOOLEANS, *OPTIONS} == set(FIELDS)


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_number_out_of_range_is_refused_with_name_and_value(name: str, value: float) -> None:
    message = complaint(**{name: value})
    assert message.startswith(f"{name} must be ")
    assert message.endswith(f"got {value!r}")


@pytest.mark.parametrize(("name", "value"), TAKEN)
def test_a_number_in_range_is_kept_as_it_is(name: str, value: float) -> None:
    assert getattr(HippoConfig(**{name: value}), name) == value


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [True, None, "0.5", [0.5], math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_refused(name: str, value: object) -> None:
    if value is None and "None" in str(FIELDS[name]):
        value = "None"
    message = complaint(**{name: value})
    assert message.startswith(f"{name} must be ")
    assert repr(value) in message


@pytest.mark.parametrize("name", WHOLE)
def test_a_count_is_whole(name: str) -> None:
    assert complaint(**{name: 2.0}) == f"{name} must be a whole number, got 2.0"


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("value", [0, 1, None, "yes"])
def test_a_switch_is_a_boolean(name: str, value: object) -> None:
    assert complaint(**{name: value}) == f"{name} must be True or False, got {value!r}"


@pytest.mark.parametrize("name", OPTIONS)
def test_an_unknown_option_is_answered_with_the_known_ones(name: str) -> None:
    message = complaint(**{name: "other"})
    assert message.startswith(f"{name} must be one of ")
    assert message.endswith("got 'other'")
    assert all(option in message for option in get_args(OPTIONS[name]))


@pytest.mark.parametrize(
    ("name", "option"), [(n, o) for n, kind in OPTIONS.items() for o in get_args(kind)]
)
def test_every_option_is_taken(name: str, option: str) -> None:
    assert getattr(HippoConfig(**{name: option}), name) == option


@given(name=st.sampled_from(NUMBERS), value=st.one_of(st.integers(), st.floats()))
def test_any_number_is_kept_or_refused_as_a_config_error(name: str, value: float) -> None:
    with contextlib.suppress(ConfigError):
        assert getattr(HippoConfig(**{name: value}), name) == value


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="dampning"):
        HippoConfig(dampning=0.5)


def test_a_refusal_is_a_value_error_and_ours() -> None:
    assert issubclass(ConfigError, ValueError)
    assert issubclass(ConfigError, HippoError)


# -- presets ---------------------------------------------------------------------------------------


def test_the_defaults_walk_as_hipporag_2_and_link_otherwise() -> None:
    ours, published = HippoConfig(), HippoConfig.hipporag2()
    changed = {name for name in FIELDS if getattr(ours, name) != getattr(published, name)}
    assert changed == {
        "triple_rendering",
        "context_weight",
        "anchor_weight",
        "meeting_weight",
        "linking_margin",
        "recognition_candidates",
        "recognition_sources",
        "kept_score",
        "seed_phrases",
    }
    assert published.context_weight == published.anchor_weight == published.meeting_weight == 0
    assert published.linking_margin is None
    assert ours.second_hop == published.second_hop == 0


def test_hipporag_2_has_the_numbers_of_its_paper() -> None:
    settings = HippoConfig.hipporag2()
    assert settings.method == "hipporag2"
    assert settings.synonymy_threshold == 0.8
    assert settings.linked_triples == 5
    assert settings.recognition_candidates == 5
    assert settings.recognition_limit == 4
    assert settings.kept_score == "linking"
    assert settings.triple_rendering == "tuple"
    assert settings.seed_phrases == 5
    assert settings.passage_weight == 0.05
    assert settings.damping == 0.5
    assert settings.recognition_memory
    assert settings.relation_count == "passage"


def test_hipporag_has_the_numbers_of_its_paper() -> None:
    settings = HippoConfig.hipporag()
    assert settings.method == "hipporag"
    assert settings.synonymy_threshold == 0.8
    assert settings.damping == 0.5
    assert settings.node_specificity
    assert settings.relation_count == "occurrence"
    assert settings.expansion == "ppr"
    assert not settings.dense_ensemble


def test_dense_is_the_same_index_read_by_cosine() -> None:
    assert HippoConfig.dense() == HippoConfig().but(method="dense")


@pytest.mark.parametrize("preset", ["hipporag2", "hipporag", "dense"])
def test_a_preset_takes_changes_and_checks_them(preset: str) -> None:
    build = getattr(HippoConfig, preset)
    assert build(damping=0.25) == build().but(damping=0.25)
    with pytest.raises(ConfigError, match="damping must be"):
        build(damping=1)


# -- a value ---------------------------------------------------------------------------------------


def test_but_changes_the_copy_only() -> None:
    before = HippoConfig()
    assert before.but(damping=0.3).damping == 0.3
    assert before == HippoConfig()


def test_but_checks_what_it_changes() -> None:
    with pytest.raises(ConfigError, match="linked_triples must be at least 1, got 0"):
        HippoConfig().but(linked_triples=0)


def test_settings_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        HippoConfig().damping = 0.3


def test_equal_settings_have_equal_hashes() -> None:
    assert hash(HippoConfig(damping=0.3)) == hash(HippoConfig().but(damping=0.3))
    assert copy.deepcopy(HippoConfig(damping=0.3)) == HippoConfig(damping=0.3)
