"""What ``simulate`` and its neighbours are given from Python: numpy's types, text for a path, and
one thing in the place of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parties.keeping.checkpoints import read_checkpoint
from protocol import Attribute, Records, Survey, SurveyError, key_records, key_survey, party_id
from protocol.errors import UsageError
from protocol.session.roster import Identity, Roster
from protocol.variants import RRBA, PrivKVVariant, RRClusters, RRIndependent, RRJoint
from scenarios import (
    Context,
    DatasetError,
    Transcript,
    adult,
    adult_with_age,
    movielens,
    open_transcript,
    read_plan,
    simulate,
    survey_network,
    taxi_trips,
    town,
)
from scenarios.cli.example_variants import read_survey
from scenarios.data.ratings import clothing
from scenarios.data.town import TOWN
from scenarios.running.simulation import TRANSPORTS
from scenarios.surveys.enrolment.folders import make_keys
from scenarios.surveys.members import read_member
from tests.scenarios.command import write_adult
from tests.scenarios.survey_folders import PLAN

RECORDS = town(12, seed=1)
VARIANT = RRIndependent.with_keep(TOWN, 0.6)
LETTERS = Survey(
    "letters", (Attribute(name="a", categories=("x", "y"), ordinal=True, missing="y"),)
)


# Types of numpy


def test_text_of_numpy_is_text() -> None:
    x, y = np.array(["x", "y"])
    assert type(x) is not str
    attribute = Attribute(
        name=np.str_("a"), categories=(x, y), ordinal=np.bool_(True), missing=np.str_("y")
    )
    survey = Survey(np.str_("letters"), (attribute,))
    assert survey == LETTERS
    assert survey.digest == LETTERS.digest
    texts = (survey.title, attribute.name, attribute.missing, *attribute.categories)
    assert {type(text) for text in texts} == {str}
    assert type(attribute.ordinal) is bool
    rows = np.array([["x"], ["y"], ["x"]])
    records = Records.from_rows(survey, rows)
    assert records == Records.from_rows(LETTERS, [["x"], ["y"], ["x"]])
    assert records == Records.from_rows(LETTERS, [{np.str_("a"): cell} for (cell,) in rows])
    outcomes = [simulate(RRJoint.with_keep(each, 0.5), records) for each in (survey, LETTERS)]
    assert outcomes[0].digest == outcomes[1].digest
    assert outcomes[0].transcript.audit(RRJoint).verdict == "sound"


def test_a_row_of_numpy_has_the_attributes_length() -> None:
    with pytest.raises(SurveyError, match="row 1: 2 cells, expected 1"):
        Records.from_rows(LETTERS, np.array([["x", "y"]]))
    with pytest.raises(SurveyError, match="row 1: expected a mapping or a sequence, got str"):
        Records.from_rows(LETTERS, np.array(["x", "y"]))


def test_ordinal_is_a_bool() -> None:
    with pytest.raises(SurveyError, match="column 'a': ordinal 'no': expected True or False"):
        Attribute(name="a", categories=("x", "y"), ordinal="no")


def test_names_of_numpy_are_names() -> None:
    name = party_id(np.str_("ward-a"))
    assert (name, type(name)) == ("ward-a", str)
    films = key_survey("films", tuple(np.array(["heat", "ran"])), ((-1.0, 1.0), (-1.0, 1.0)))
    records = key_records(films, [{np.str_("heat"): np.float64(1)}, {"ran": -1}] * 20)
    variant = PrivKVVariant(survey=films, epsilon=np.float64(3))
    assert simulate(variant, records, parties=np.int64(2)).estimate.n == 40


def test_numbers_of_numpy_are_numbers() -> None:
    numpys: dict[str, Any] = {"p": np.float64(0.5), "k": np.int64(2), "block": np.int32(4)}
    variant, plain = RRBA(survey=TOWN, **numpys), RRBA(survey=TOWN, p=0.5, k=2, block=4)
    assert variant == plain
    assert [type(getattr(variant, name)) for name in numpys] == [float, int, int]
    seed: Any = np.uint64(3)
    assert simulate(variant, RECORDS, seed=seed).digest == simulate(plain, RECORDS, seed=3).digest


# Seeds and other integers


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("seed", [-1, -(2**63), 2**64, 2**70])
def test_a_seed_is_within_bounds(transport: Any, seed: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"^seed {seed}: expected an integer from 0 to 2\*\*64"):
        simulate(VARIANT, RECORDS, seed=seed, transport=transport, path=tmp_path / "t.svt")
    assert list(tmp_path.iterdir()) == []


def test_the_largest_seed() -> None:
    outcome = simulate(VARIANT, RECORDS, seed=2**64 - 1)
    assert outcome.transcript.audit(RRIndependent).verdict == "sound"


@pytest.mark.parametrize("name", ["seed", "parties"])
@pytest.mark.parametrize("given", ["3", 1.5, b"1"])
def test_what_counts_is_an_integer(name: str, given: object) -> None:
    options: dict[str, Any] = {name: given}
    with pytest.raises(TypeError, match=f"^{name} {given!r}: expected an integer$"):
        simulate(VARIANT, RECORDS, **options)


@pytest.mark.parametrize("field", ["quorum", "max_records", "block"])
@pytest.mark.parametrize("value", [2**64, 2**100])
def test_a_parameter_has_at_most_64_bits(field: str, value: int) -> None:
    given: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=f"^{field} {value}: expected an integer of at most 64"):
        RRBA(survey=TOWN, p=0.5, **given)
    with pytest.raises(ValueError, match="at most 64"):
        RRClusters(survey=TOWN, p=0.5, tv=4, td=0.1, quorum=2**64)


# One thing in the place of another


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("given", "got"),
    [
        ((RECORDS, VARIANT), "Records and RRIndependent"),
        ((RRIndependent, RECORDS), "the class RRIndependent and Records"),
        ((VARIANT, RECORDS.codes), "RRIndependent and ndarray"),
        ((VARIANT, RECORDS.to_rows()), "RRIndependent and list"),
        (("rr-independent", RECORDS), "str and Records"),
        ((VARIANT, None), "RRIndependent and NoneType"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_is_simulated(given: Any, got: str, transport: Any) -> None:
    with pytest.raises(TypeError, match=rf"^expected a variant, .* in this order; got {got}$"):
        simulate(*given, transport=transport)


def test_a_variants_class_judges() -> None:
    transcript = simulate(VARIANT, RECORDS).transcript
    wrong: Any
    for wrong, got in (("rr-independent", "'rr-independent'"), (VARIANT, "a RRIndependent")):
        with pytest.raises(TypeError, match=f"expected a variant's class, .* got {got}"):
            transcript.audit(wrong)
        with pytest.raises(TypeError, match=f"expected a variant's class, .* got {got}"):
            transcript.prove(wrong, RECORDS)


# Text for a path


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_transcript_is_named_by_text(tmp_path: Path, transport: Any) -> None:
    path = str(tmp_path / "below" / "t.svt")
    outcome = simulate(VARIANT, RECORDS, path=path, transport=transport)
    assert outcome.transcript.path == Path(path)
    for transcript in (outcome.transcript, open_transcript(path), Transcript(path)):
        assert transcript.verify(digest=outcome.digest).intact
        assert transcript.path == Path(path)
        assert repr(transcript) == f"Transcript({path})"
    published = read_checkpoint(str(tmp_path / "below" / "t.checkpoint"))
    assert outcome.transcript.verify(checkpoint=published).published == "fits"
    with pytest.raises(UsageError, match="nosuch: no such transcript"):
        open_transcript("nosuch")
    with pytest.raises(UsageError, match="a folder; expected a transcript"):
        open_transcript(str(tmp_path))


def test_a_context_has_paths_as_text(tmp_path: Path) -> None:
    context = Context(transcript=str(tmp_path / "t.svt"))
    assert context.simulate(VARIANT, RECORDS).transcript.verify().intact


def test_data_is_named_by_text(tmp_path: Path) -> None:
    records = write_adult(tmp_path, 20)
    assert adult(str(tmp_path)) == records
    assert len(adult_with_age(str(tmp_path))) == 20
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,3.5,4\n1,3,4,4\n")
    assert movielens(str(tmp_path)).items == ("2", "3")
    (tmp_path / "renttherunway_final_data.json").write_text(
        '{"user_id": "u", "item_id": "i", "rating": "8"}\n'
    )
    assert clothing(str(tmp_path)).name == "Clothing"
    for read in (survey_network, taxi_trips):
        with pytest.raises(DatasetError):
            read(str(tmp_path))


def test_a_survey_among_parties_is_named_by_text(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    read = read_plan(str(plan))
    assert read_survey(str(plan)).names == read.variant.survey.names
    make_keys(read, ["ward-a", np.str_("ward-b")], str(tmp_path / "keys"), days=1)
    member = read_member(str(tmp_path / "keys" / "ward-b"))
    assert member.folder == tmp_path / "keys" / "ward-b"
    assert isinstance(member.charter.roster, Roster)
    assert isinstance(member.identity, Identity)
