"""Contract of every randomizer, for tests: one line in a test file checks all of each.

    test_my_randomizer = lawful(MyRandomizer(...))

The checks:

1. value: it is hashable, and equal after encoding and decoding as in a header.
2. law: exact probabilities that sum to 1; if symmetric, the same for all inputs compared.
3. epsilon and the dominating pair: neither is below what follows from the law.
4. reports: of the declared dtype, shape and range, as many bits as stated, the same again from the
   same stream, and with the law's frequencies. A bias of 5 % in the likeliest class is found, or
   there are too few samples, and the check fails saying so.
5. hostile reports: anybody may send any array of the form of reports. All that ``fits`` accepts can
   be counted and classed, since no party may end a survey by it.
6. estimate: unbiased, with the stated variances and covariances; of a randomizer of numbers, the
   scores of an input's reports have its value as their mean.
7. guesses: likelihood ratios are the law's, and the best guess is neither below what two inputs
   allow nor above what epsilon does.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import ProtocolError, UnsupportedEventError
from protocol.randomizers import Randomizer
from protocol.randomizers.exact import Floats, log_fraction
from protocol.randomizers.vetting import (
    checked_law,
    held_dominating,
    held_epsilon,
    known,
    some_pairs,
)
from protocol.testing.collected import as_test, require
from protocol.wire.arrays import smallest_dtype

SAMPLES = 400_000
"""The number of reports that are drawn of each input."""

LEVEL = 1e-9
"""The probability that a single comparison fails for a correct randomizer."""

BIAS = 0.05
"""The bias in the likeliest class that the samples must be enough to find."""

MOST_TALLIED = 1024
"""The most inputs for which estimates are checked."""

Fact = Literal["law", "epsilon", "dominating", "estimate", "covariance"]
"""Facts that a randomizer may leave out. Figures that need them are refused."""

_ANY = 1000
_INPUTS = 4
_OTHERS = 8
_BATCHES = 400
_LEAST_EXPECTED = 10.0


def check_randomizer(
    randomizer: Randomizer,
    *,
    without: tuple[Fact, ...] = (),
    samples: int = SAMPLES,
    seed: int = 1,
) -> None:
    """Check a randomizer against its own law.

    Args:
        randomizer: with its parameters; few inputs are compared faster.
        without: facts that it leaves out on purpose.
        samples: the number of reports that are drawn of each input.
        seed: of the draws.

    Raises:
        AssertionError: says what is wrong, and for which inputs.
    """
    _check_value(randomizer)
    if "epsilon" not in without:
        _asked(held_epsilon, randomizer)
    if "dominating" not in without:
        _asked(held_dominating, randomizer)
    if "law" in without:
        return
    _check_law(randomizer)
    _check_guess(randomizer)
    _check_mean(randomizer)
    stream = Stream(secret_of(seed)).derive("check_randomizer")
    counted = "estimate" not in without and randomizer.size <= MOST_TALLIED
    inputs = _spread(randomizer.size, _INPUTS)
    for code in inputs:
        reports = _check_reports(randomizer, code, samples, stream.derive(f"input {code}"))
        others = [other for other in _spread(randomizer.size, _OTHERS) if other != code]
        for other in others:
            _check_frequencies(randomizer, reports, code, other)
        if counted:
            _check_estimate(randomizer, reports, code, "covariance" not in without)
    _check_any(randomizer, stream.derive("any"), counted=counted)


lawful = as_test(check_randomizer)
"""A test function for pytest that checks a randomizer."""


def _spread(size: int, number: int) -> list[int]:
    """Some inputs, with the first two and the last."""
    return sorted({0, 1, size - 1, *(size * place // number for place in range(number))})


def _check_value(randomizer: Randomizer) -> None:
    try:
        hash(randomizer)
    except TypeError as error:
        raise AssertionError(f"cannot be hashed: {error}") from error
    try:
        encoded = msgspec.msgpack.encode(randomizer)
        again = msgspec.msgpack.decode(encoded, type=type(randomizer))
    except (msgspec.MsgspecError, TypeError, NotImplementedError) as error:
        raise AssertionError(f"does not come back from the header: {error}") from error
    require(again == randomizer, f"comes back from the header as {again!r}")


def _asked(ask: Callable[[object], object], randomizer: Randomizer) -> None:
    try:
        ask(randomizer)
    except UnsupportedEventError as error:
        raise AssertionError(str(error)) from error


def _check_law(randomizer: Randomizer) -> None:
    try:
        known(randomizer)
        laws = {pair: checked_law(randomizer, *pair) for pair in some_pairs(randomizer)}
    except UnsupportedEventError as error:
        raise AssertionError(str(error)) from error
    shapes = set()
    for (first, second), law in laws.items():
        back = randomizer.law(second, first)
        forth = sorted((part.first, part.second) for part in law)
        require(
            forth == sorted((part.second, part.first) for part in back),
            f"the law of inputs {first} and {second} is not that of {second} and {first}",
        )
        shapes.add(tuple(_merged(forth)))
    require(
        not randomizer.symmetric or len(shapes) == 1,
        "says that it is symmetric, and some pairs of inputs have other laws than others",
    )


def _merged(law: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """The law with classes of equal likelihood ratio merged."""
    sums: dict[object, tuple[Fraction, Fraction]] = {}
    for first, second in law:
        if first or second:
            ratio = Fraction(first, first + second)
            before = sums.get(ratio, (Fraction(0), Fraction(0)))
            sums[ratio] = before[0] + first, before[1] + second
    return sorted(sums.values())


def _check_guess(randomizer: Randomizer) -> None:
    size = randomizer.size
    for code in _spread(size, _INPUTS):
        farthest = randomizer.farthest(code)
        require(0 <= farthest < size and farthest != code, f"farthest({code}) is {farthest}")
    best = randomizer.best_guess()
    if best is None:
        return
    likeliest = max(
        float(sum(max(part.first, part.second) for part in randomizer.law(*pair))) / size
        for pair in some_pairs(randomizer)
    )
    most = 1 / (1 + (size - 1) * math.exp(-randomizer.epsilon))
    require(
        likeliest * (1 - 1e-9) <= best <= most * (1 + 1e-9),
        f"best_guess is {best:.9g}; expected from {likeliest:.9g}, by two inputs alone, to "
        f"{most:.9g}, by epsilon",
    )


def _check_mean(randomizer: Randomizer) -> None:
    values, scores = randomizer.values, randomizer.scores
    if values is None or scores is None:
        return
    require(len(values) == randomizer.size, f"{len(values)} values of {randomizer.size} inputs")
    for code in _spread(randomizer.size, _OTHERS):
        found = float(sum(p * s for p, s in zip(randomizer.row(code), scores, strict=True)))
        require(
            math.isclose(found, values[code], rel_tol=1e-12, abs_tol=1e-12),
            f"input {code}: the scores of its reports have mean {found:.9g}, expected its value "
            f"{float(values[code]):.9g}",
        )


def _check_reports(randomizer: Randomizer, code: int, samples: int, stream: Stream) -> NDArray[Any]:
    codes = np.full(samples, code, smallest_dtype(randomizer.size))
    reports: NDArray[Any] = randomizer.randomize(codes, stream.derive("draws"))
    require(bool((codes == code).all()), "randomize changes the codes it is given")
    try:
        randomizer.reports(samples).check(np.asarray(reports), "reports")
    except ProtocolError as error:
        raise AssertionError(f"input {code}: not as report says: {error}") from error
    require(randomizer.fits(reports), f"input {code}: fits refuses its own reports")
    require(
        8 * reports.nbytes == samples * randomizer.bits,
        f"a report takes {8 * reports.nbytes / samples:g} bits, not {randomizer.bits}",
    )
    few = codes[: min(samples, 1000)]
    once, again = (randomizer.randomize(few, stream.derive("again")) for _ in range(2))
    require(
        np.array_equal(once, again),
        f"input {code}: the same stream gives other reports the next time",
    )
    return reports


def _check_any(randomizer: Randomizer, stream: Stream, *, counted: bool) -> None:
    """Check that all reports that fit are classified and counted."""
    one = randomizer.report
    if one.dtype[0] != "u":
        return
    most = (1 << 8 * int(one.dtype[1:])) - 1
    high = most if one.high is None else one.high
    ends = [min(end, most) for end in high] if isinstance(high, tuple) else min(int(high), most)
    bounds = np.array(ends, np.uint64)
    lengths = [length for length in one.shape if isinstance(length, int)]
    drawn = stream.integers(bounds, (_ANY, *lengths))
    drawn[0], drawn[1] = 0, bounds - np.uint64(1)
    reports = np.maximum(drawn, np.uint64(one.low)).astype(one.dtype)
    fitting = reports[[randomizer.fits(reports[k : k + 1]) for k in range(_ANY)]]
    about = "of reports that have the declared form, and that fits lets pass"
    first, second = 0, randomizer.size - 1
    places = len(randomizer.law(first, second))
    with _failing(f"classify fails {about}"):
        classes = np.asarray(randomizer.classify(fitting, first, second)).astype(np.int64)
    require(
        bool(((classes >= 0) & (classes < places)).all()),
        f"classify {about}, gives places beyond the {places} of its law",
    )
    if not counted:
        return
    with _failing(f"tally fails {about}"):
        tally, none = randomizer.tally(fitting), randomizer.tally(fitting[:0])
    require(
        tally.shape == none.shape and bool((tally <= len(fitting)).all()),
        f"tally {about}, has {tally.size} counts up to {tally.max(initial=0)}; expected "
        f"{none.size} of at most {len(fitting)}",
    )


@contextlib.contextmanager
def _failing(complaint: str) -> Iterator[None]:
    """Raise any error in the block as a complaint."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{complaint}: {type(error).__name__}: {error}") from error


def _check_frequencies(
    randomizer: Randomizer, reports: NDArray[Any], code: int, other: int
) -> None:
    about = f"input {code}, reports classed by {code} and {other}"
    law = randomizer.law(code, other)
    classes = np.asarray(randomizer.classify(reports, code, other)).astype(np.int64)
    require(
        classes.shape == (len(reports),) and bool(((classes >= 0) & (classes < len(law))).all()),
        f"{about}: expected one class from 0 to {len(law) - 1} for each",
    )
    counts = np.bincount(classes, minlength=len(law))
    shares = np.array([float(part.first) for part in law])
    impossible = np.flatnonzero((shares == 0) & (counts > 0))
    require(not len(impossible), f"{about}: class {impossible[:1]} has probability 0 and occurs")
    if (shares == 1).any():
        return
    p_value = _p_value(counts, shares)
    require(
        p_value > LEVEL,
        f"{about}: shares {_shown(counts / len(reports))}, expected {_shown(shares)} "
        f"(p = {p_value:.2g})",
    )
    require(
        _p_value(_biased(shares * len(reports)), shares) < LEVEL,
        f"{about}: {len(reports):,} samples are too few to find a bias of {BIAS:.0%}; give more",
    )
    ratios = randomizer.log_ratios(reports, code, other)
    wanted = np.nan_to_num([_log_ratio(part.first, part.second) for part in law])[classes]
    require(
        bool(np.allclose(ratios, wanted, rtol=1e-12, atol=1e-12)),
        f"{about}: log_ratios is not that of the law",
    )


def _log_ratio(first: Fraction, second: Fraction) -> float:
    if first == second:
        return 0.0
    if not (first and second):
        return math.copysign(math.inf, second - first)
    return log_fraction(second / first)


def _biased(counts: Floats) -> Floats:
    """Counts with a part of the likeliest class moved to all others."""
    place = int(np.argmax(counts))
    moved = BIAS * counts[place]
    biased: Floats = counts * (1 + moved / (counts.sum() - counts[place]))
    biased[place] = counts[place] - moved
    return biased


def _p_value(counts: NDArray[Any], shares: Floats) -> float:
    """P-value of Pearson's test of fit, with rare classes merged."""
    expected = shares * counts.sum()
    rare = expected < _LEAST_EXPECTED
    observed, wanted = counts[~rare].astype(np.float64), expected[~rare]
    if expected[rare].sum() > 0:
        observed = np.append(observed, counts[rare].sum())
        wanted = np.append(wanted, expected[rare].sum())
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    return float(stats.chi2.sf(statistic, max(1, len(wanted) - 1)))


def _check_estimate(
    randomizer: Randomizer, reports: NDArray[Any], code: int, covariances: bool
) -> None:
    n, size = len(reports), randomizer.size
    truth = np.zeros(size)
    truth[code] = 1.0
    about = f"input {code}"
    try:
        if randomizer.symmetric:
            _check_support(randomizer, code)
        found = randomizer.shares(randomizer.tally(reports), n)
        errors = np.sqrt(np.maximum(randomizer.variances(truth, n), 0.0))
    except UnsupportedEventError as error:
        raise AssertionError(f"{error}; leave it out by without=('estimate',)") from error
    off = np.abs(found - truth) - float(stats.norm.isf(LEVEL / 2)) * errors
    worst = int(np.argmax(off))
    require(
        off[worst] <= 1e-9,
        f"{about}: the estimated share of {worst} is {found[worst]:.6g} from {n:,} reports, "
        f"expected {truth[worst]:g} with a standard error of {errors[worst]:.3g}",
    )
    each = n // _BATCHES
    batches = reports[: each * _BATCHES].reshape(_BATCHES, each, *reports.shape[1:])
    estimates = np.stack([randomizer.shares(randomizer.tally(batch), each) for batch in batches])
    variances = randomizer.variances(truth, each)
    for place in _spread(size, _INPUTS):
        _compare_spread(estimates[:, place], variances[place], f"{about}: the share of {place}")
    if not covariances:
        return
    try:
        covariance = randomizer.covariance(truth, each)
    except UnsupportedEventError as error:
        raise AssertionError(f"{error}; leave it out by without=('covariance',)") from error
    require(
        bool(np.allclose(covariance.diagonal(), variances, rtol=1e-9, atol=1e-15)),
        f"{about}: covariance has another diagonal than variances",
    )
    others = np.arange(size) != code
    weights = (others * 1.0, others * (-1.0) ** np.arange(size), np.arange(size) / size)
    for number, weight in enumerate(weights):
        if np.ptp(weight) > 0:
            wanted = float(weight @ covariance @ weight)
            _compare_spread(estimates @ weight, wanted, f"{about}: the weighted sum {number}")
            sums = randomizer.sum_variances(truth, each, np.zeros(size, np.intp), weight)
            require(
                bool(np.allclose(sums, [wanted], rtol=1e-9, atol=1e-15)),
                f"{about}: sum_variances of the weighted sum {number} is {sums}, and by covariance "
                f"{wanted:.6g}",
            )


def _compare_spread(values: Floats, variance: float, about: str) -> None:
    """Refuse a variance that does not fit independent, nearly normal values."""
    spread = float(values.var(ddof=1))
    freedom = len(values) - 1
    if variance <= 1e-15:
        require(spread <= 1e-12, f"{about} has variance {spread:.3g}, expected 0")
        return
    statistic = freedom * spread / variance
    p_value = 2 * min(stats.chi2.sf(statistic, freedom), stats.chi2.cdf(statistic, freedom))
    require(
        p_value > LEVEL,
        f"{about} has variance {spread:.6g} over {len(values)} batches, expected {variance:.6g} "
        f"(p = {p_value:.2g})",
    )


def _check_support(randomizer: Randomizer, code: int) -> None:
    """Check that the classes of the law agree with the support."""
    support, size = randomizer.support, randomizer.size
    for other in _spread(size, _OTHERS):
        law = randomizer.law(code, other) if other != code else ()
        if not law or any(part.supports is None for part in law):
            continue
        counted = [(part.first, part.supports or (False, False)) for part in law]
        hit = sum((share for share, (own, _) in counted if own), Fraction(0))
        beside = sum((share for share, (_, its) in counted if its), Fraction(0))
        both = sum((share for share, (own, its) in counted if own and its), Fraction(0))
        stated = (support.hit, support.other, support.both_hit)
        require(
            stated in ((hit, beside, both), (hit, beside, None)),
            f"input {code}: the support states {_shown(stated)}, and the law of {code} and {other} "
            f"has {_shown((hit, beside, both))}",
        )


def _shown(shares: Collection[Any]) -> str:
    said = ["none" if share is None else f"{float(share):.6g}" for share in shares]
    return ", ".join(said[:8]) + (", ..." if len(said) > 8 else "")
