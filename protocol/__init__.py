"""The protocols themselves: pure computation, without I/O, clocks or hidden randomness.

What the author of a variant needs is imported from here; the variants are in
``protocol.variants``, and what her tests run in ``protocol.testing``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.accounting.composition import ExactAccountant, exact_epsilon
    from protocol.accounting.events import (
        Coins,
        Composed,
        Derived,
        ExactCounts,
        Hidden,
        Mask,
        Masked,
        Merged,
        Merging,
        OneOf,
        Plain,
        PrivacyEvent,
        Public,
        Randomized,
        Sealed,
    )
    from protocol.audit.coalition.coalition import Coalition
    from protocol.audit.coalition.judge import judge_coalition, judge_sessions, worst_coalition
    from protocol.crypto.randomness import Stream, secret_of
    from protocol.errors import (
        CannotTabulateError,
        LocalProtocolError,
        PrivacyError,
        ProtocolError,
        QuorumError,
        RemoteProtocolError,
        SurveyError,
        TranscriptError,
        UnsupportedEventError,
    )
    from protocol.estimators.calibration.adjustment import AdjustedEstimate
    from protocol.estimators.calibration.margins import Margin
    from protocol.estimators.calibration.methods import calibrate
    from protocol.estimators.counts import Counts, count_codes
    from protocol.estimators.dependence.association import exact_test, noise_aware_test
    from protocol.estimators.dependence.dependence import debiased_dependences
    from protocol.estimators.estimate import Estimate
    from protocol.estimators.independent import ProductEstimate
    from protocol.estimators.inference.contrasts import (
        Contrast,
        difference,
        odds_ratio,
        p_value,
        ratio,
    )
    from protocol.estimators.inference.largest_errors import largest_errors
    from protocol.estimators.inference.laws import ErrorLaw, Interval
    from protocol.estimators.joint import Block, JointReports
    from protocol.estimators.linear import LinearEstimate
    from protocol.estimators.projection import Projection
    from protocol.estimators.releases.combined import CombinedReleases
    from protocol.estimators.releases.exact import ExactTables
    from protocol.estimators.releases.noisy import NoisyTables
    from protocol.estimators.releases.release import Group, Release
    from protocol.estimators.releases.tallies import Tallies
    from protocol.estimators.synthetic import synthesize, synthesize_weighted
    from protocol.estimators.tables import Cells, Estimated, Table
    from protocol.estimators.usefulness import MarginOfError, margin_of_error
    from protocol.messages import AGGREGATOR, RECORD, Message, PartyId, party_id
    from protocol.randomizers import (
        CodeRandomizer,
        FakeData,
        HadamardResponse,
        KeepElseTable,
        KeepUniform,
        LocalHashing,
        MatrixRandomizer,
        MeanRandomizer,
        OneBitMean,
        OutputClass,
        PiecewiseMean,
        PrivKV,
        PrivKVM,
        Randomizer,
        SubsetSelection,
        Support,
        UnaryEncoding,
        join_codes,
        randomize_columns,
        split_codes,
    )
    from protocol.randomizers.coins import Noise
    from protocol.session.roles import Me, Seen, sealed_bytes
    from protocol.session.so_far import SoFar, Waiting
    from protocol.session.tabulation import Respondents, Stage
    from protocol.session.variant import Claim, Drawn, Epsilon, Probability, Variant
    from protocol.sharing.sums import SecureSum
    from protocol.simulation.populations.population import Law, Population, Resampled, TableLaw
    from protocol.surveys.limits import Workload
    from protocol.surveys.records import Records
    from protocol.surveys.survey import Attribute, Survey
    from protocol.transcript.certifying import Witnesses
    from protocol.variants.keyvalue.records import key_records, key_survey
    from protocol.variants.reports.one_report import OneReport, Request
    from protocol.variants.reports.oracle import Draws, FrequencyOracle
    from protocol.variants.rrba.grouped import GroupTables
    from protocol.wire.arrays import Array, ArraySpec, Bounds
    from protocol.wire.codec import Kind

__all__ = [
    "AGGREGATOR",
    "RECORD",
    "AdjustedEstimate",
    "Array",
    "ArraySpec",
    "Attribute",
    "Block",
    "Bounds",
    "CannotTabulateError",
    "Cells",
    "Claim",
    "Coalition",
    "CodeRandomizer",
    "Coins",
    "CombinedReleases",
    "Composed",
    "Contrast",
    "Counts",
    "Derived",
    "Drawn",
    "Draws",
    "Epsilon",
    "ErrorLaw",
    "Estimate",
    "Estimated",
    "ExactAccountant",
    "ExactCounts",
    "ExactTables",
    "FakeData",
    "FrequencyOracle",
    "Group",
    "GroupTables",
    "HadamardResponse",
    "Hidden",
    "Interval",
    "JointReports",
    "KeepElseTable",
    "KeepUniform",
    "Kind",
    "Law",
    "LinearEstimate",
    "LocalHashing",
    "LocalProtocolError",
    "Margin",
    "MarginOfError",
    "Mask",
    "Masked",
    "MatrixRandomizer",
    "Me",
    "MeanRandomizer",
    "Merged",
    "Merging",
    "Message",
    "Noise",
    "NoisyTables",
    "OneBitMean",
    "OneOf",
    "OneReport",
    "OutputClass",
    "PartyId",
    "PiecewiseMean",
    "Plain",
    "Population",
    "PrivKV",
    "PrivKVM",
    "PrivacyError",
    "PrivacyEvent",
    "Probability",
    "ProductEstimate",
    "Projection",
    "ProtocolError",
    "Public",
    "QuorumError",
    "Randomized",
    "Randomizer",
    "Records",
    "Release",
    "RemoteProtocolError",
    "Request",
    "Resampled",
    "Respondents",
    "Sealed",
    "SecureSum",
    "Seen",
    "SoFar",
    "Stage",
    "Stream",
    "SubsetSelection",
    "Support",
    "Survey",
    "SurveyError",
    "Table",
    "TableLaw",
    "Tallies",
    "TranscriptError",
    "UnaryEncoding",
    "UnsupportedEventError",
    "Variant",
    "Waiting",
    "Witnesses",
    "Workload",
    "calibrate",
    "count_codes",
    "debiased_dependences",
    "difference",
    "exact_epsilon",
    "exact_test",
    "join_codes",
    "judge_coalition",
    "judge_sessions",
    "key_records",
    "key_survey",
    "largest_errors",
    "margin_of_error",
    "noise_aware_test",
    "odds_ratio",
    "p_value",
    "party_id",
    "randomize_columns",
    "ratio",
    "sealed_bytes",
    "secret_of",
    "split_codes",
    "synthesize",
    "synthesize_weighted",
    "worst_coalition",
]

_HOMES = {
    "protocol.accounting.composition": ("ExactAccountant", "exact_epsilon"),
    "protocol.accounting.events": (
        "Coins",
        "Composed",
        "Derived",
        "ExactCounts",
        "Hidden",
        "Mask",
        "Masked",
        "Merged",
        "Merging",
        "OneOf",
        "Plain",
        "PrivacyEvent",
        "Public",
        "Randomized",
        "Sealed",
    ),
    "protocol.audit.coalition.coalition": ("Coalition",),
    "protocol.audit.coalition.judge": ("judge_coalition", "judge_sessions", "worst_coalition"),
    "protocol.crypto.randomness": ("Stream", "secret_of"),
    "protocol.errors": (
        "CannotTabulateError",
        "LocalProtocolError",
        "PrivacyError",
        "ProtocolError",
        "QuorumError",
        "RemoteProtocolError",
        "SurveyError",
        "TranscriptError",
        "UnsupportedEventError",
    ),
    "protocol.estimators.calibration.adjustment": ("AdjustedEstimate",),
    "protocol.estimators.calibration.methods": ("calibrate",),
    "protocol.estimators.calibration.margins": ("Margin",),
    "protocol.estimators.counts": ("Counts", "count_codes"),
    "protocol.estimators.dependence.association": ("exact_test", "noise_aware_test"),
    "protocol.estimators.dependence.dependence": ("debiased_dependences",),
    "protocol.estimators.estimate": ("Estimate",),
    "protocol.estimators.independent": ("ProductEstimate",),
    "protocol.estimators.inference.contrasts": (
        "Contrast",
        "difference",
        "odds_ratio",
        "p_value",
        "ratio",
    ),
    "protocol.estimators.inference.largest_errors": ("largest_errors",),
    "protocol.estimators.inference.laws": ("ErrorLaw", "Interval"),
    "protocol.estimators.linear": ("LinearEstimate",),
    "protocol.estimators.joint": ("Block", "JointReports"),
    "protocol.estimators.projection": ("Projection",),
    "protocol.estimators.releases.combined": ("CombinedReleases",),
    "protocol.estimators.releases.release": ("Group", "Release"),
    "protocol.estimators.releases.tallies": ("Tallies",),
    "protocol.estimators.synthetic": ("synthesize", "synthesize_weighted"),
    "protocol.estimators.tables": ("Cells", "Estimated", "Table"),
    "protocol.estimators.usefulness": ("MarginOfError", "margin_of_error"),
    "protocol.estimators.releases.exact": ("ExactTables",),
    "protocol.estimators.releases.noisy": ("NoisyTables",),
    "protocol.messages": ("AGGREGATOR", "RECORD", "Message", "PartyId", "party_id"),
    "protocol.simulation.populations.population": ("Law", "Population", "Resampled", "TableLaw"),
    "protocol.randomizers": (
        "CodeRandomizer",
        "FakeData",
        "HadamardResponse",
        "KeepElseTable",
        "KeepUniform",
        "LocalHashing",
        "MatrixRandomizer",
        "MeanRandomizer",
        "OneBitMean",
        "OutputClass",
        "PiecewiseMean",
        "PrivKV",
        "PrivKVM",
        "Randomizer",
        "SubsetSelection",
        "Support",
        "UnaryEncoding",
        "join_codes",
        "randomize_columns",
        "split_codes",
    ),
    "protocol.session.roles": ("Me", "Seen", "sealed_bytes"),
    "protocol.session.so_far": ("SoFar", "Waiting"),
    "protocol.session.tabulation": ("Respondents", "Stage"),
    "protocol.session.variant": ("Claim", "Drawn", "Epsilon", "Probability", "Variant"),
    "protocol.randomizers.coins": ("Noise",),
    "protocol.sharing.sums": ("SecureSum",),
    "protocol.surveys.limits": ("Workload",),
    "protocol.surveys.records": ("Records",),
    "protocol.surveys.survey": ("Attribute", "Survey"),
    "protocol.transcript.certifying": ("Witnesses",),
    "protocol.variants.keyvalue.records": ("key_records", "key_survey"),
    "protocol.variants.reports.one_report": ("OneReport", "Request"),
    "protocol.variants.reports.oracle": ("Draws", "FrequencyOracle"),
    "protocol.variants.rrba.grouped": ("GroupTables",),
    "protocol.wire.arrays": ("Array", "ArraySpec", "Bounds"),
    "protocol.wire.codec": ("Kind",),
}
"""Where each name is defined. Its module is imported when the name is first asked for."""

if not TYPE_CHECKING:  # To a type checker, a name that is not imported above is unknown.

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                found = globals()[name] = getattr(importlib.import_module(home), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
