"""The plan of a survey among real parties: a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.session.variant import Variant
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import RRIndependent, RRJoint
from scenarios.running.errors import UsageError
from scenarios.running.loading import built_in_variant
from scenarios.running.parameters import parameters_checked


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a survey's TOML file says: what is asked, by which protocol, on what terms."""

    title: str
    attributes: tuple[Attribute, ...]
    variant: str = RRIndependent.name
    p: Annotated[float, Meta(gt=0, lt=1)] | None = None
    epsilon: Annotated[float, Meta(gt=0)] | None = None
    quorum: Annotated[int, Meta(ge=1)] | None = None
    patience: Annotated[float, Meta(gt=0)] = 60.0
    max_records: Annotated[int, Meta(ge=1)] = 1

    def build(self) -> Variant:
        """The variant that the plan describes."""
        cls = built_in_variant(self.variant)
        if not issubclass(cls, RRIndependent | RRJoint):
            raise UsageError(f"variant {self.variant!r} cannot be planned in TOML")
        if (self.p is None) == (self.epsilon is None):
            raise UsageError("a plan sets p or epsilon, one of them")
        with parameters_checked():
            survey = Survey(self.title, self.attributes)
            if self.p is not None:
                variant = cls.with_keep(survey, self.p)
            else:
                variant = cls.with_epsilon(survey, self.epsilon or 0.0)
            return msgspec.structs.replace(
                variant, quorum=self.quorum, patience=self.patience, max_records=self.max_records
            )


def read_plan(path: Path | str) -> Plan:
    """A survey's plan.

    Raises:
        UsageError: the file is missing, is not TOML, or is not a plan; says which field.
    """
    try:
        return msgspec.toml.decode(Path(path).read_bytes(), type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
