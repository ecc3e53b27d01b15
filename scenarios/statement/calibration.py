"""Calibration of an estimate to known margins, in words and as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from protocol.estimators.calibration.adjustment import AdjustedEstimate
from protocol.estimators.calibration.linear import CalibratedEstimate
from protocol.estimators.calibration.margins import FarShare, Margin, far_shares
from protocol.estimators.calibration.post_stratified import PostStratifiedEstimate
from protocol.estimators.estimate import Estimate
from scenarios.wording.formatting import count, cut

Calibrated: TypeAlias = CalibratedEstimate | PostStratifiedEstimate | AdjustedEstimate


def calibration_values(estimate: Estimate) -> dict[str, Any]:
    """How an estimate agrees with known margins, or its weights with estimated ones."""
    match estimate:
        case CalibratedEstimate():
            return {
                "method": "linear",
                "margins": [margin.names for margin in estimate.known],
                "effective_n": estimate.effective_n,
                "errors_known": estimate.clear,
                "far": _far_values(estimate, estimate.known),
            }
        case PostStratifiedEstimate():
            return {
                "method": "post-stratified",
                "margins": [estimate.known.names],
                "errors_known": estimate.clear,
                "far": _far_values(estimate, [estimate.known]),
            }
        case AdjustedEstimate(adjusted=fit):
            return {
                "method": "raking",
                "margins": [margin.names for margin in estimate.known],
                "effective_n": fit.effective_n,
                "sweeps": fit.sweeps,
                "margin_error": fit.margin_error,
                "converged": fit.converged,
                "unplaced": fit.unplaced,
                "far": _far_values(estimate, estimate.known),
            }
    return {}


def calibration_sentences(estimate: Estimate) -> Iterator[str]:
    """The same in words, and what it corrects; then known shares that the reports contradict."""
    match estimate:
        case CalibratedEstimate(effective_n=effective):
            weights = (
                ""
                if effective is None
                else f": effective sample size of the weights {effective:,.1f} of {estimate.n:,}"
            )
            errors = (
                " Errors are unknown: the reports contradict the margins."
                if estimate.far
                else " Errors are about the population, if the respondents are a random sample of "
                "it."
            )
            yield f"Calibrated linearly to {_listed(estimate.known)}{weights}.{errors}"
            yield from _cautions(estimate, estimate.known)
        case PostStratifiedEstimate():
            unclear = "" if estimate.clear else " A stratum is too small, so errors are unknown."
            yield (
                f"Post-stratified by {_listed([estimate.known])}: errors are about the population, "
                f"if those who answer in a stratum are like the rest of it.{unclear}"
            )
            yield from _cautions(estimate, [estimate.known])
        case AdjustedEstimate(adjusted=fit):
            what = f"Raked to {_listed(estimate.known)}" if estimate.known else "RR-Adjustment"
            yield (
                f"{what}: {count(fit.sweeps, 'sweep')}, margin error {fit.margin_error:.2g}"
                f"{'' if fit.converged else ', not converged'}; effective sample size of the "
                f"weights {fit.effective_n:,.1f} of {estimate.n:,}; {fit.unplaced:.2g} of the "
                "targets lies where nobody reported."
            )
            yield from _cautions(estimate, estimate.known)
        case _:
            raise TypeError(f"{estimate!r}: expected a calibrated estimate")


def _far(estimate: Calibrated, known: Sequence[Margin]) -> Sequence[FarShare]:
    if isinstance(estimate, CalibratedEstimate):
        return estimate.far
    return [] if estimate.before is None else far_shares(estimate.before, known)


def _far_values(estimate: Calibrated, known: Sequence[Margin]) -> list[dict[str, Any]]:
    return [far._asdict() for far in _far(estimate, known)]


def _cautions(estimate: Calibrated, known: Sequence[Margin]) -> Iterator[str]:
    found = _far(estimate, known)
    if not found:
        return
    far = max(found, key=lambda far: max(far.low - far.share, far.share - far.high))
    cell = ", ".join(f"{cut(a)} = {cut(b)}" for a, b in zip(far.names, far.cell, strict=True))
    more = f", and {len(found) - 1:,} more," if len(found) > 1 else ""
    corrects = "" if isinstance(estimate, PostStratifiedEstimate) else _other_way(known)
    yield (
        f"Caution: the known share of {cell}, {100 * far.share:.1f} %{more} is not within what the "
        f"reports allow, [{100 * far.low:.1f}, {100 * far.high:.1f}] %. Either some people are "
        f"likelier to respond than others, or the margins are of another population.{corrects}"
    )


def _other_way(known: Sequence[Margin]) -> str:
    """The method that corrects what this one does not, as the command takes it."""
    one = ""
    if len(known) > 1:
        one = ", which takes one margin: of one attribute, or of several together"
    return (
        " This method corrects a part of the difference only. Use --calibrate-by post-stratified"
        f"{one}."
    )


def _listed(margins: Iterable[Margin]) -> str:
    return ", ".join(" by ".join(map(cut, margin.names)) for margin in margins)
