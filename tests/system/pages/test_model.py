"""The model of the page makes of the vectors' words what the page has to make of them."""

import hashlib
import itertools
from typing import Any

import pytest

from tests.system.pages.model import Listed, agree, draw, read_link, reported
from tests.tiers import thinned
from tests.vectors.pages.file import read
from tests.vectors.pages.making import hashed_words

SURVEYS = {survey["name"]: survey for survey in read()}


@pytest.mark.parametrize("name", thinned(SURVEYS, 12))
def test_it_draws_and_signs_what_the_vectors_say(name: str) -> None:
    survey: dict[str, Any] = SURVEYS[name]
    link = read_link(survey["link"])
    agreement = agree(link, bytes.fromhex(survey["terms"]), bytes.fromhex(survey["place"]))
    assert agreement.charter.session.hex() == survey["session"]
    for report in survey["reports"]:
        chosen = [int(word, 16) for word in report["words"]]
        words = itertools.chain(chosen, hashed_words(report["name"]))
        drawn = draw(agreement, report["codes"], words.__next__)
        body = reported(agreement, drawn)
        found = (drawn.hex(), hashlib.sha256(body).hexdigest())
        assert found == (report["report"], report["post"]), report["name"]


def test_words_are_given_out_once() -> None:
    stream = Listed(itertools.count().__next__)
    assert stream.words(2).tolist() == [0, 1]
    assert stream.derive("answer").words(1).tolist() == [2]
