"""A simulation's setting: one seed, one set of draws, and a session for every survey."""

from __future__ import annotations

import pytest

from protocol import PartyId, Survey
from protocol.crypto.key_agreement import Agreed, AgreementKey
from protocol.crypto.randomness import Streams
from protocol.messages import ROLE_STREAM
from protocol.simulation.setting import make_setting, simulated_identity
from protocol.variants import RRIndependent, RRJoint
from tests.protocol.sessions import SURVEY, answers

ONE = PartyId("party-1")
VARIANT = RRIndependent.with_keep(SURVEY, 0.6)


def test_two_surveys_of_one_seed_are_two_sessions() -> None:
    other = Survey("other habits", SURVEY.attributes)
    settings = [
        make_setting(VARIANT, answers(SURVEY, 5), seed=1),
        make_setting(VARIANT, answers(SURVEY, 6), seed=1),
        make_setting(VARIANT, answers(SURVEY, 5), seed=2),
        make_setting(RRIndependent.with_keep(SURVEY, 0.7), answers(SURVEY, 5), seed=1),
        make_setting(RRJoint.with_keep(SURVEY, 0.6), answers(SURVEY, 5), seed=1),
        make_setting(RRIndependent.with_keep(other, 0.6), answers(other, 5), seed=1),
    ]
    assert len({setting.charter.session for setting in settings}) == len(settings)


def test_other_answers_and_more_parties_leave_a_party_its_draws() -> None:
    few = make_setting(VARIANT, answers(SURVEY, 5), seed=1)
    again = make_setting(VARIANT, answers(SURVEY, 5, seed=9), seed=1)
    more = make_setting(VARIANT, answers(SURVEY, 6), seed=1)
    assert again.charter.session == few.charter.session
    words = [s.streams.stream(ONE, ROLE_STREAM).words(4).tolist() for s in (few, again, more)]
    assert words[0] == words[1] == words[2]


def test_what_two_members_agree_on_is_computed_once_for_both() -> None:
    agreed: Agreed = {}
    streams, names = Streams.of_seed(1), [PartyId(f"party-{i}") for i in (1, 2, 3)]
    one, two, three = (simulated_identity(streams, name, agreed) for name in names)
    alone = [simulated_identity(streams, name) for name in names]
    secret = alone[0].agree(alone[1].public)
    assert one.agree(two.public) == secret
    assert list(agreed.values()) == [secret]
    # The other takes it; whoever asks again gets the same.
    assert two.agree(one.public) == secret
    assert not agreed
    assert two.agree(one.public) == one.agree(two.public) == secret
    assert one.agree(three.public) == alone[2].agree(alone[0].public) != secret


def test_so_is_what_two_fresh_keys_of_theirs_agree_on() -> None:
    agreed: Agreed = {}
    streams, secrets = Streams.of_seed(1), (bytes([1] * 32), bytes([2] * 32))
    one, two = (
        simulated_identity(streams, PartyId(f"party-{i}"), agreed).fresh_key(secret)
        for i, secret in enumerate(secrets)
    )
    secret = AgreementKey(secrets[0]).agree(two.public)
    assert one.agree(two.public) == secret
    assert list(agreed.values()) == [secret]
    assert two.agree(one.public) == secret
    assert not agreed


def test_an_agreement_with_a_key_of_low_order_is_refused_in_a_simulation_too() -> None:
    identity = simulated_identity(Streams.of_seed(1), ONE, {})
    with pytest.raises(ValueError, match="shared"):
        identity.agree((1).to_bytes(32, "little"))
