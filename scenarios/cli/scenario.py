"""The scenario or plan that ``run`` and ``tabulate`` take, with its parameters."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from scenarios.cli.completion import complete_scenario, complete_scenario_setting
from scenarios.cli.options import SEEDS, set_option
from scenarios.cli.paths import READ_FILE, READ_FOLDER, TEXT_WITH_FILE
from scenarios.cli.values import frozen_options, option, shared
from scenarios.running.scenario import Scenario
from scenarios.surveys.trial import scenario_or_trial


@frozen_options
class ScenarioOptions:
    """A scenario or a plan with its parameters and data."""

    scenario: str = shared(
        click.argument("scenario", type=TEXT_WITH_FILE, shell_complete=complete_scenario)
    )
    settings: Mapping[str, str] = shared(set_option(complete_scenario_setting))
    config: Path | None = option(
        "--config", type=READ_FILE, help="A TOML file of parameters; --set overrides what it says."
    )
    data: Path | None = option(
        "--data",
        type=READ_FOLDER,
        help="A folder of raw data files, by default the one named by the environment variable "
        "SOTTOVOCE_DATA. Without one, Adult and the networks are read from the package, and "
        "MovieLens is downloaded.",
    )
    records: Path | None = option(
        "--records",
        type=READ_FILE,
        help="The answers that a plan is tried on: a CSV or Parquet file, read as the plan says.",
    )
    seed: int | None = option(
        "--seed",
        type=SEEDS,
        help="Decides all randomness: the same seed gives the same result. For a plan it is drawn "
        "by default, and then kept out of the record and the result.  [default: 1]",
    )

    @property
    def withheld(self) -> bool:
        """True if the seed is drawn, and kept out of the record and the result."""
        return self.records is not None and self.seed is None

    def drawn_seed(self) -> int:
        """The seed; a withheld seed is drawn anew at each call."""
        if self.withheld:
            return secrets.randbits(64)
        return 1 if self.seed is None else self.seed

    def load(self) -> Scenario[Any]:
        """The scenario, or the trial of the plan; raises like ``scenario_or_trial``."""
        return scenario_or_trial(self.scenario, self.records)

    def parameters(self) -> dict[str, Any]:
        """The parameters that are given, by name.

        Raises:
            UsageError: the file of parameters is not valid.
            OSError: it cannot be read.
        """
        if self.config is None:
            return dict(self.settings)
        from scenarios.files.toml import read_toml  # Few runs have a file of parameters.

        return read_toml(self.config, dict[str, Any]) | dict(self.settings)
