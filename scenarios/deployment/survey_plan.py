"""The plan of a real survey, a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.estimators.analysis import Analysis
from protocol.session.variant import Variant
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import RRIndependent, RRJoint
from scenarios.errors import UsageError
from scenarios.running.loading import built_in_variant
from scenarios.running.parameters import parameters_checked


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked, by which protocol, on what terms, and how it is to be analysed."""

    title: str
    attributes: tuple[Attribute, ...]
    variant: str = RRIndependent.name
    p: Annotated[float, Meta(gt=0, lt=1)] | None = None
    epsilon: Annotated[float, Meta(gt=0)] | None = None
    quorum: Annotated[int, Meta(ge=1)] | None = None
    patience: Annotated[float, Meta(gt=0)] = 60.0
    max_records: Annotated[int, Meta(ge=1)] = 1
    analysis: Analysis | None = None

    def build(self) -> Variant:
        """The variant that the plan describes."""
        cls = built_in_variant(self.variant)
        if not issubclass(cls, RRIndependent | RRJoint):
            raise UsageError(
                f"variant {self.variant!r}: expected rr-independent or rr-joint in a plan"
            )
        if (self.p is None) == (self.epsilon is None):
            raise UsageError("expected either p or epsilon in a plan")
        with parameters_checked():
            survey = Survey(self.title, self.attributes)
            if self.analysis is not None:
                self.analysis.check(survey)
            if self.p is not None:
                variant = cls.with_keep(survey, self.p)
            else:
                variant = cls.with_epsilon(survey, self.epsilon or 0.0)
            return msgspec.structs.replace(
                variant, quorum=self.quorum, patience=self.patience, max_records=self.max_records
            )


def read_plan(path: Path | str) -> Plan:
    """Read a plan.

    Raises:
        UsageError: the file is not valid TOML, or not a plan; names the field.
        OSError: it cannot be read.
    """
    try:
        return msgspec.toml.decode(Path(path).read_bytes(), type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
