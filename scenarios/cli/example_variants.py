"""A small survey and parameters for every variant, to be attacked or tested."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from protocol.errors import SurveyError, UsageError
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants.keyvalue.privkv import KeyValueCollection
from protocol.variants.keyvalue.records import key_survey
from protocol.variants.numeric.numeric_mean import NumericMean
from scenarios.cli.completion import complete_variant_setting
from scenarios.cli.options import set_option
from scenarios.cli.paths import READ_FILE
from scenarios.cli.values import frozen_options, option, shared
from scenarios.files.toml import read_toml
from scenarios.running.making import is_enough, make_variant, shorthands
from scenarios.surveys.survey_plan import Asked

HABITS = Survey(
    "Habits",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="drinks", categories=("never", "seldom", "often"), ordinal=True),
    ),
)
"""The survey that is attacked unless another is given."""

LIKINGS = key_survey("Likings", ("tea", "coffee"), ((-1.0, 1.0), (-1.0, 0.0, 1.0)))
"""The survey for variants that ask about keys with values."""

NUMBERS = Survey(
    "Numbers",
    (
        Attribute(name="trips", categories=("0", "1", "2", "3"), ordinal=True),
        Attribute(name="mood", categories=("-1", "-0.5", "0", "0.5", "1"), ordinal=True),
    ),
)
"""The survey for variants that ask for numbers."""

RESPONDENTS = 4
"""The respondents of a whole run: few, so that each one shows."""

EXAMPLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "rr-independent": {"p": 0.6},
        "rr-joint": {"p": 0.6},
        "rr-ind-joint": {"p": 0.6},
        "pair-rr": {"p": 0.3},
        "rr-clusters": {"p": 0.15, "tv": 6, "td": 0.1},
        "rrba": {"p": 0.5, "k": 1, "mix": 0.5, "block": 2},
        **{
            name: {"epsilon": 1.0}
            for name in ("inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht")
        },
        "privkv": {"epsilon": 2.0},
        "privkvm": {"epsilon": 2.0, "rounds": 2},
        "spl": {"epsilon": 1.0},
        "smp": {"epsilon": 1.0},
        "rs-fd": {"epsilon": 1.0},
        "numeric-mean": {"epsilon": 1.0},
    }
)
"""The parameters of built-in variants that do not have defaults for all."""

COPIES: Mapping[str, int] = MappingProxyType({"rrba": 1024})
"""The respondents who share a run, for variants whose largest number would take too long."""


@frozen_options
class ExampleOptions:
    """Parameters that a variant is attacked or tested with, in place of the example's."""

    settings: Mapping[str, str] = shared(set_option(complete_variant_setting))
    survey_file: Path | None = option(
        "--survey",
        type=READ_FILE,
        help="A TOML file with the title and attributes to ask about, instead of an example.",
    )

    def make(
        self, cls: type[Variant], *, respondents: int = RESPONDENTS
    ) -> tuple[Variant, Records]:
        """A variant with parameters, and a few respondents; raises like ``example``."""
        survey = None if self.survey_file is None else read_survey(self.survey_file)
        return example(cls, self.settings, survey, respondents=respondents)


def read_survey(path: Path | str) -> Survey:
    """A survey from a TOML file: a plan, or its title with its attributes or keys.

    Raises:
        UsageError: the file is not valid TOML, or not a survey; names the field.
        CannotFinishError: it takes more than is given to a file of its length.
    """
    asked = read_toml(path, Asked)
    try:
        return asked.survey()
    except (SurveyError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from error


def example(
    cls: type[Variant],
    settings: Mapping[str, str],
    survey: Survey | None = None,
    *,
    respondents: int = RESPONDENTS,
) -> tuple[Variant, Records]:
    """A variant with parameters, and a few respondents.

    Args:
        settings: parameters as text, instead of the example's. ``p`` and ``epsilon`` go to
            ``with_keep`` and ``with_epsilon`` if the class has these and no such field.
        survey: a survey to use instead of an example.

    Raises:
        UsageError: a parameter is unknown, missing, or out of range.
    """
    if survey is None:
        survey = _survey_for(cls)
    given: dict[str, Any] = dict(EXAMPLES.get(cls.name, {}))
    if "epsilon" in settings or "p" in settings:
        given.pop("p", None)
        given.pop("epsilon", None)
    given.update({name: _value(text) for name, text in settings.items()})
    if "p" in shorthands(cls) and not ({"p", "epsilon"} & given.keys() or is_enough(cls, given)):
        # A user's own variant, made like the built-in ones.
        given["p"] = 0.6
    hint = "; --set NAME=VALUE sets one of its parameters"
    if survey in (HABITS, LIKINGS, NUMBERS):
        hint += "; --survey FILE gives another survey"
    variant = make_variant(cls, survey, given, strict=False, hint=hint)
    return variant, varied_respondents(survey, respondents)


def varied_respondents(survey: Survey, respondents: int = RESPONDENTS) -> Records:
    """A few respondents of a survey, no two alike next to each other."""
    sizes = np.array(survey.sizes)
    steps = np.arange(respondents)[:, np.newaxis]
    return Records(survey, (steps + np.arange(len(sizes))) % sizes)


def _survey_for(cls: type[Variant]) -> Survey:
    if issubclass(cls, NumericMean):
        return NUMBERS
    return LIKINGS if issubclass(cls, KeyValueCollection) else HABITS


def _value(text: str) -> Any:
    """A text for msgspec to convert; an object or an array is JSON."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{text!r}: not valid JSON, from character {error.pos + 1} on") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{text[:40]!r} ...: a number is too long, or the value is nested too deeply"
        ) from error
