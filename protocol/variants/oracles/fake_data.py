"""RS+FD: one attribute is randomized and the others are fakes; it is not revealed which."""

from __future__ import annotations

import functools

from protocol.crypto.randomness import Stream
from protocol.estimators.linear import LinearEstimate
from protocol.messages import Message
from protocol.randomizers import FakeData, Randomizer, join_codes
from protocol.session.variant import Claim
from protocol.surveys.records import Records
from protocol.variants.oracles.attributes import SOURCE, AttributeReports, WholeReport
from protocol.variants.oracles.estimate import AttributeShares
from protocol.variants.reports.by_stratum import weighted
from protocol.variants.reports.one_report import Request


class RsFd(WholeReport, frozen=True, kw_only=True):
    """Arcolezi et al., Random Sampling Plus Fake Data, section 3.2, with randomized response.

    The drawn attribute is randomized with ``ln(m (e**epsilon - 1) + 1)``. The paper claims that the
    fakes bring this back to epsilon. They do not: it is the cost for two records that differ
    everywhere, and it is charged.

    Args:
        epsilon: as the paper claims it of a respondent's report.
    """

    name = "rs-fd"

    @functools.cached_property
    def randomizer(self) -> FakeData:
        """Randomizer of a whole record."""
        return FakeData.with_epsilon(self.survey.sizes, epsilon=self.epsilon)

    @functools.cached_property
    def randomizers(self) -> tuple[Randomizer, ...]:
        return tuple(self.randomizer.column(place) for place in range(self.attributes))

    def answer(self, records: Records, question: Request, stream: Stream) -> AttributeReports:
        cells = join_codes(records.codes, self.survey.sizes)
        return AttributeReports(self.randomizer.randomize(cells, stream))

    @weighted
    def estimate(self, result: Message) -> LinearEstimate[AttributeShares]:
        return self.shares(result)

    def most(self) -> float:
        """One report."""
        return self.randomizer.epsilon

    def claims(self) -> tuple[Claim, ...]:
        says = "fake answers amplify privacy: a report costs epsilon"
        return (Claim(source=SOURCE, says=says, epsilon=self.epsilon),)
