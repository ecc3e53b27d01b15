"""Surveys that the vectors of pages are made of: every variant that a page can answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from protocol import (
    Attribute,
    CodeRandomizer,
    KeepElseTable,
    KeepUniform,
    MatrixRandomizer,
    Survey,
    Variant,
    key_survey,
)
from protocol.estimators.analysis import Analysis
from protocol.surveys.texts import Texts, Wording
from protocol.variants import (
    InpHT,
    InpPS,
    InpRR,
    MargHT,
    MargPS,
    MargRR,
    NumericMean,
    PrivKVVariant,
    RRIndependent,
    RRIndJoint,
    RRJoint,
    RsFd,
    Smp,
    Spl,
)
from protocol.variants.oracles.names import ORACLES

WORDS = 2**64


@dataclass(frozen=True)
class Case:
    """A variant, and how many vectors are made of it.

    Args:
        name: of its own.
        variant: the protocol.
        cases: how many reports.
        analysis: what was announced.
        attempt: at the survey.
        kept: whether it is small enough for the repository.
    """

    name: str
    variant: Variant
    cases: int
    analysis: Analysis | None = None
    attempt: int = 1
    kept: bool = True


def survey_of(*sizes: int, title: str = "Town", texts: tuple[Texts, ...] = ()) -> Survey:
    """A survey of attributes with these numbers of categories."""
    attributes = tuple(
        Attribute(name=f"q{place}", categories=tuple(map(str, range(size))))
        for place, size in enumerate(sizes)
    )
    return Survey(title, attributes, texts)


def numbers(*sizes: int) -> Survey:
    """A survey of numbers that rise by a quarter from -1."""
    steps = [[f"{-1 + step / 4:.2f}" for step in range(size)] for size in sizes]
    attributes = [
        Attribute(name=f"n{place}", categories=tuple(each)) for place, each in enumerate(steps)
    ]
    return Survey("numbers", tuple(attributes))


WORDED = Survey(
    "Arbeit und Gesundheit — عمل",
    (
        Attribute(
            name="leave", categories=("no", "yes", "no answer"), ordinal=True, missing="no answer"
        ),
        Attribute(name="ill", categories=("nein", "ja")),
    ),
    (
        Texts(
            language="de",
            title="Gehen oder bleiben?",
            asks="Stadt Köln",
            consent="Freiwillig.\nAlles bleibt hier.",
            contact="amt@example.org",
            questions=(
                Wording(
                    attribute="leave",
                    ask="Würden Sie gehen? 🙂",
                    help="In einem Jahr",
                    labels=("Nein", "Ja", "Keine Angabe"),
                ),
            ),
        ),
        Texts(language="ar", questions=(Wording(attribute="ill", ask="هل أنت مريض؟"),)),
    ),
)


def table(*weights: int) -> KeepElseTable:
    """A table of fakes: the last weight is what is left."""
    return KeepElseTable(threshold=2**63 + 12345, weights=(*weights, WORDS - sum(weights)))


def settings() -> Iterator[Case]:
    """All of them."""
    yield from _blocks()
    yield from _oracles()
    yield from _means()
    yield from _marginals()
    yield from _keys()


def _blocks() -> Iterator[Case]:
    three = survey_of(2, 3, 5)
    rows = [[0.1] * place + [0.6] + [0.1] * (4 - place) for place in range(1, 5)]
    mixed: tuple[CodeRandomizer, ...] = (
        KeepUniform.with_epsilon(2, epsilon=0.7),
        table(2**62 + 1, 0),
        MatrixRandomizer.from_probabilities([[0.5, 0.2, 0.1, 0.1, 0.1], *rows]),
    )
    holed = MatrixRandomizer.from_probabilities([[0.75, 0.25, 0], [0, 0.5, 0.5], [0.125, 0, 0.875]])
    wide = survey_of(300, 2, 7)
    yield Case("keep", RRIndependent.with_keep(three, 0.6), 70)
    yield Case("epsilon", RRIndependent.with_epsilon(three, 1.3), 40)
    yield Case("mixed", RRIndependent(survey=three, randomizers=mixed), 60, attempt=3)
    yield Case("wide", RRIndependent.with_keep(wide, 0.3), 20)
    worded = RRIndependent(survey=WORDED, randomizers=(holed, KeepUniform(2, WORDS - 1)))
    yield Case("worded", worded, 30, Analysis(tables=(("leave", "ill"),)))
    rare = (KeepUniform(2, 1), KeepUniform(3, 2), KeepUniform(5, 3))
    yield Case("hardly kept", RRIndependent(survey=three, randomizers=rare), 40)

    yield Case("joint", RRJoint.with_keep(three, 0.4), 60)
    yield Case("joint epsilon", RRJoint.with_epsilon(survey_of(50, 40, 40), 3.0), 50)
    yield Case("joint table", RRJoint(survey=survey_of(2, 2), randomizer=table(1, 2**60, 7)), 50)
    yield Case("joint huge", RRJoint.with_keep(survey_of(*[40] * 10), 0.2), 50)

    yield Case("composed", RRIndJoint.with_keep(three, 0.55), 70)
    pairs = (("q3", "q0"), ("q1", "q2"))
    clustered = RRIndJoint(survey=survey_of(2, 3, 4, 2), p=0.35, clusters=pairs)
    yield Case("clustered", clustered, 90, attempt=2)
    clustered = RRIndJoint(survey=wide, p=0.1, clusters=(("q0", "q2"), ("q1",)))
    yield Case("clustered wide", clustered, 50)


def _oracles() -> Iterator[Case]:
    small, several = survey_of(3, 9, 2, 17), survey_of(4, 300)
    for oracle in ORACLES:
        one: Variant
        yield Case(f"spl {oracle}", Spl(survey=small, epsilon=2.0, oracle=oracle), 40)
        yield Case(f"spl {oracle} wide", Spl(survey=several, epsilon=6.5, oracle=oracle), 6)
        yield Case(f"smp {oracle}", Smp(survey=small, epsilon=1.1, oracle=oracle), 40)
        yield Case(f"smp {oracle} wide", Smp(survey=several, epsilon=3.7, oracle=oracle), 6)
        for epsilon in (0.05, 0.3333, 9.0, 44.0):
            one = Spl(survey=survey_of(5, 5, 5), epsilon=epsilon, oracle=oracle)
            yield Case(f"spl {oracle} at {epsilon}", one, 3)
    huge = survey_of(66_000, 2)
    for oracle in ("grr", "blh", "olh", "hadamard-response"):
        one = Smp(survey=huge, epsilon=4.0, oracle=oracle)
        yield Case(f"smp {oracle} huge", one, 6, kept=False)
    for oracle in ("sue", "oue", "subset-selection"):
        most = Spl(survey=survey_of(2**16), epsilon=4.0, oracle=oracle)
        yield Case(f"spl {oracle} huge", most, 3, kept=False)
    yield Case("spl grr huge", Spl(survey=huge, epsilon=20.0), 6, kept=False)
    yield Case("fakes", RsFd(survey=survey_of(2, 3, 5), epsilon=1.0), 120)
    yield Case("fakes wide", RsFd(survey=survey_of(300, 7), epsilon=2.5), 40)
    yield Case("fakes of one", RsFd(survey=survey_of(6), epsilon=0.4), 40)


def _means() -> Iterator[Case]:
    whole = Attribute(name="age", categories=("+17", "18", "19"))
    survey = Survey("ages", (whole, *numbers(9, 2).attributes))
    for mechanism, cases in (("one-bit", 90), ("piecewise", 90)):
        one = NumericMean(survey=survey, epsilon=2.0, mechanism=mechanism)
        yield Case(f"{mechanism}", one, cases)
        wide = NumericMean(survey=numbers(400, 3), epsilon=7.7, mechanism=mechanism)
        yield Case(f"{mechanism} wide", wide, 15)
        small = NumericMean(survey=numbers(5), epsilon=0.01, mechanism=mechanism)
        yield Case(f"{mechanism} at 0.01", small, 15)
    fine = NumericMean(survey=numbers(50_000), epsilon=1.0)
    yield Case("piecewise huge", fine, 4, kept=False)


def _marginals() -> Iterator[Case]:
    bits, mixed = survey_of(2, 2, 2, 2, 2), survey_of(2, 3, 4, 2)
    for method in (InpRR, InpPS, InpHT, MargRR, MargPS, MargHT):
        name = method.name
        yield Case(f"{name}", method(survey=bits, epsilon=1.0, k=2), 80)
        yield Case(f"{name} mixed", method(survey=mixed, epsilon=1.7, k=3), 80)
        yield Case(f"{name} of one", method(survey=survey_of(2), epsilon=1.0, k=1), 40)
    yield Case("inp-rr oue", InpRR(survey=bits, epsilon=1.0, unary="oue"), 20)
    yield Case("marg-rr oue", MargRR(survey=bits, epsilon=1.0, k=4, unary="oue"), 20)
    yield Case("inp-ht wide", InpHT(survey=survey_of(*[2] * 24), epsilon=1.0, k=4), 10)
    yield Case("inp-ps wide", InpPS(survey=survey_of(*[2] * 24), epsilon=9.0), 10)
    yield Case("marg-ht wide", MargHT(survey=survey_of(*[2] * 20), epsilon=1.0, k=3), 10)


def _keys() -> Iterator[Case]:
    films = key_survey("films", ("heat", "ran", "m"), ((-1, -0.3, 0, 0.1, 1), (1.0,), (1e-9, -0.7)))
    yield Case("keys", PrivKVVariant(survey=films, epsilon=2.0), 150)
    one = key_survey("film", ("heat",), ((-0.5, 0.5),))
    yield Case("one key", PrivKVVariant(survey=one, epsilon=0.3), 40)
    many = key_survey("films", [f"film {i}" for i in range(300)], [(0.25,)] * 300)
    yield Case("many keys", PrivKVVariant(survey=many, epsilon=5.0), 20)
