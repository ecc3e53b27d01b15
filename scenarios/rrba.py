"""RRBA on samples of three Bayesian networks: every client live, asked in blocks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Streams, secret_of, session_of
from protocol.estimators.measures import jensen_shannon_distance, l2_distance, total_variation
from protocol.estimators.projection import Projection, project_simplex
from protocol.surveys.records import Records
from protocol.transcript.entries import Sent
from protocol.variants.rrba.blocks import Release, Running, weights_of
from protocol.variants.rrba.grouped import GroupedEstimate
from protocol.variants.rrba.plan import Extent, Mode, Stopping, Tail
from protocol.variants.rrba.rrba import RRBA, Block
from protocol.wire.codec import decode_envelope
from scenarios.adult_reports import Epsilon, Keep, Positive
from scenarios.datasets.networks import Network, alarm_network, child_network, survey_network
from scenarios.running.errors import UsageError
from scenarios.running.outcomes import Outcome
from scenarios.running.scenario import Context, Finished, Scenario, parameters_checked
from transports.faults import crash

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_P = 0.5
TRACED = 6
"""How many cells of one group the convergence is drawn of."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set; ``p`` or ``epsilon``, not both."""

    n: Annotated[Positive, Meta(description="how many clients are drawn from the network")] = 8000
    k: Annotated[int, Meta(ge=1, le=6, description="attributes in a group")] = 2
    p: Annotated[Keep | None, Meta(description="probability of the true answer; 0.5")] = None
    epsilon: Annotated[Epsilon | None, Meta(description="most per answer, instead of p")] = None
    mix: Annotated[
        float, Meta(ge=0, le=1, description="share of uniform in the table of fakes")
    ] = msgspec.field(default=1.0, name="lambda")
    block: Annotated[Positive, Meta(description="parties per block")] = 250
    mode: Annotated[Mode, Meta(description="blocked or sequential")] = "blocked"
    groups: Annotated[
        Extent, Meta(description="of its view a client answers about: one, or the whole view")
    ] = "one"
    stopping: Annotated[Stopping, Meta(description="never, pooled or printed")] = "never"
    width: Annotated[float, Meta(gt=0, description="half-width to stop at, when pooled")] = 0.01
    release: Annotated[Release, Meta(description="pooled or last-two")] = "pooled"
    tail: Annotated[Tail, Meta(description="a last block that is not full: keep or drop")] = "keep"
    unbounded: Annotated[
        bool, Meta(description="allow tables with a zero, which cost infinity")
    ] = msgspec.field(default=False, name="allow-unbounded")
    parties: Annotated[
        Positive | None, Meta(description="over how many clients are spread; one each")
    ] = None
    drop: Annotated[float, Meta(ge=0, lt=1, description="share of parties that vanish")] = 0.0
    project: Annotated[
        Projection | Literal["consistent"],
        Meta(description="of the tables reported: none, clip, simplex or consistent"),
    ] = "none"


def _run(
    parameters: Parameters, context: Context, network: Callable[[Path | str | None], Network]
) -> Finished:
    if parameters.p is not None and parameters.epsilon is not None:
        raise UsageError("set p or epsilon, not both")
    if parameters.parties is not None and parameters.parties > parameters.n:
        raise UsageError(
            f"parameter 'parties' = {parameters.parties}: more than the {parameters.n} clients"
        )
    secret = secret_of(context.seed)
    stream = Streams(secret, session_of(secret)).stream("network", "sample")
    records = network(context.data).sample(parameters.n, stream)
    unset = parameters.p is None and parameters.epsilon is None
    with parameters_checked():
        variant = RRBA(
            survey=records.survey,
            k=parameters.k,
            p=DEFAULT_P if unset else parameters.p,
            epsilon=parameters.epsilon,
            mix=parameters.mix,
            block=parameters.block,
            mode=parameters.mode,
            groups=parameters.groups,
            stopping=parameters.stopping,
            width=parameters.width,
            release=parameters.release,
            tail=parameters.tail,
            allow_unbounded=parameters.unbounded,
        )
        views = len(variant.plan.views)
    rules = (crash(parameters.drop, kind="Answers"),) if parameters.drop else ()
    outcome = context.simulate(variant, records, parties=parameters.parties, rules=rules)
    estimate = outcome.estimate
    if not isinstance(estimate, GroupedEstimate):
        raise TypeError(f"expected the tables of groups, got {estimate!r}")
    claimed = variant.claims()[0].epsilon or 0.0
    agreed: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    if parameters.project == "consistent":
        before = estimate.disagreement()
        with parameters_checked():
            estimate = estimate.consistent()
        agreed = {"before": before, "after": estimate.disagreement()}
        notes = (
            f"Groups that share attributes gave shares of these that differ by up to {before:.3g}; "
            "the tables reported are the nearest that agree.",
        )
    return Finished(
        outcome=outcome,
        projection="none" if parameters.project == "consistent" else parameters.project,
        estimate=estimate,
        extra={
            "views": [
                [list(variant.plan.group_names[group]) for group in view]
                for view in variant.plan.views
            ],
            "blocks": outcome.result.blocks if hasattr(outcome.result, "blocks") else None,
            **({"disagreement": agreed} if agreed else {}),
        },
        error={"groups": _errors(estimate, records)},
        notes=(
            f"{views} views, {len(variant.plan.group_names)} groups of {parameters.k} attributes.",
            f"The paper claims epsilon {claimed:.3g} per answer; the ledger below has what the "
            "tables really cost.",
            *notes,
        ),
        plot=lambda figure: draw_convergence(figure, variant, outcome, records),
    )


def _errors(estimate: GroupedEstimate, records: Records) -> dict[str, float]:
    """The mean distances of the groups' projected tables from the true ones."""
    distances: dict[str, list[float]] = {"total_variation": [], "l2": [], "jensen_shannon": []}
    for names, raw in estimate.tables().items():
        estimated, true = project_simplex(raw), records.distribution(names)
        distances["total_variation"].append(float(total_variation(estimated, true)))
        distances["l2"].append(float(l2_distance(estimated, true)))
        distances["jensen_shannon"].append(float(jensen_shannon_distance(estimated, true)))
    return {name: float(np.mean(values)) for name, values in distances.items()}


def convergence(variant: RRBA, outcome: Outcome) -> NDArray[np.float64]:
    """The running raw estimate after every block, (blocks, cells), from the record."""
    plan = variant.plan
    running = Running(plan.cells, np.array(plan.thresholds) / WORDS)
    trace: list[NDArray[np.float64]] = []
    for entry in outcome.transcript.entries():
        if not isinstance(entry, Sent):
            continue
        envelope = decode_envelope(entry.envelope)
        if envelope.kind != Block.kind():
            continue
        block = outcome.charter.codec.decode(envelope.kind, envelope.body)
        if isinstance(block, Block):
            tables = weights_of(plan.cells, running.tables(variant.mix)) / WORDS
            running.add(block.counts.astype(np.int64), tables)
            trace.append(running.raw())
    return np.array(trace)


def draw_convergence(figure: Figure, variant: RRBA, outcome: Outcome, records: Records) -> None:
    """The cells of the group with most of them, block by block, beside the true shares."""
    from matplotlib.ticker import MaxNLocator

    plan, trace = variant.plan, convergence(variant, outcome)
    group = int(plan.cells.sizes.argmax())
    names = plan.group_names[group]
    true = records.distribution(names).reshape(-1)
    start = int(plan.cells.starts[group])
    cells = np.argsort(-true)[:TRACED]
    axes = figure.add_subplot()
    blocks = np.arange(1, len(trace) + 1)
    categories = list(product(*(variant.survey.attribute(name).categories for name in names)))
    for cell in cells.tolist():
        label = " / ".join(categories[cell]).replace("$", r"\$")
        (line,) = axes.plot(blocks, trace[:, start + cell], marker=".", label=label)
        axes.axhline(true[cell], color=line.get_color(), linestyle=":")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize="small")
    axes.set_xlabel("blocks asked")
    axes.set_ylabel(f"share of {' and '.join(names)}")
    axes.set_title(f"{len(cells)} largest cells: estimate, and dotted the truth")


def run_survey(parameters: Parameters, context: Context) -> Finished:
    """Six attributes."""
    return _run(parameters, context, survey_network)


def run_alarm(parameters: Parameters, context: Context) -> Finished:
    """37 attributes."""
    return _run(parameters, context, alarm_network)


def run_child(parameters: Parameters, context: Context) -> Finished:
    """20 attributes."""
    return _run(parameters, context, child_network)


def _scenario(name: str, summary: str, run: Any) -> Scenario[Parameters]:
    return Scenario(name=name, summary=summary, parameters=Parameters, run=run, joint=False)


SCENARIOS = (
    _scenario("rrba-survey", "RRBA on the Survey network: 6 attributes, in blocks.", run_survey),
    _scenario("rrba-alarm", "RRBA on the Alarm network: 37 attributes, in blocks.", run_alarm),
    _scenario("rrba-child", "RRBA on the Child network: 20 attributes, in blocks.", run_child),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
