"""Calibration of an estimate to known margins, in words and as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from protocol.estimators.calibration.calibrated import Calibrated
from protocol.estimators.calibration.margins import Margin
from protocol.estimators.estimate import Estimate
from scenarios.wording.formatting import count, cut, rest


def calibration_values(estimate: Estimate) -> dict[str, Any]:
    """Agreement of an estimate with known margins, or of its weights with estimated ones."""
    found = estimate.calibration
    if found is None:
        return {}
    values: dict[str, Any] = {
        "method": found.method,
        "margins": [margin.names for margin in found.known],
    }
    if found.method != "post-stratified":
        values["effective_n"] = found.effective_n
    if found.fit is None:
        values["errors_known"] = found.clear
    else:
        values["sweeps"] = found.fit.sweeps
        values["margin_error"] = found.fit.margin_error
        values["converged"] = found.fit.converged
        values["unplaced"] = found.fit.unplaced
    return {**values, "far": [far._asdict() for far in found.far]}


def calibration_sentences(estimate: Estimate) -> Iterator[str]:
    """Sentences on a calibration, its effect, and margins that the reports contradict."""
    found = estimate.calibration
    if found is None:
        raise TypeError(f"{estimate!r}: expected a calibrated estimate")
    effective = found.effective_n
    if found.fit is not None:
        fit = found.fit
        what = f"Raked to {_margin_names(found.known)}" if found.known else "RR-Adjustment"
        yield (
            f"{what}: {count(fit.sweeps, 'sweep')}, margin error {fit.margin_error:.2g}"
            f"{'' if fit.converged else ', not converged'}; effective sample size of the "
            f"weights {fit.effective_n:,.1f} of {estimate.n:,}; {fit.unplaced:.2g} of the "
            "targets lies where nobody reported."
        )
    elif found.method == "linear":
        weights = (
            ""
            if effective is None
            else f": effective sample size of the weights {effective:,.1f} of {estimate.n:,}"
        )
        errors = (
            " Errors are unknown: the reports contradict the margins."
            if found.far
            else " Errors are about the population, if the respondents are a random sample of it."
        )
        yield f"Calibrated linearly to {_margin_names(found.known)}{weights}.{errors}"
    else:
        unclear = "" if found.clear else " A stratum is too small, so errors are unknown."
        yield (
            f"Post-stratified by {_margin_names(found.known)}: errors are about the population, "
            f"if those who answer in a stratum are like the rest of it.{unclear}"
        )
    yield from _cautions(found)


def _cautions(found: Calibrated) -> Iterator[str]:
    if not found.far:
        return
    # Two answers to a question are equally far: the first, not the one that rounding prefers.
    far = max(found.far, key=lambda far: round(max(far.low - far.share, far.share - far.high), 9))
    cell = ", ".join(f"{cut(a)} = {cut(b)}" for a, b in zip(far.names, far.cell, strict=True))
    more = f", {others}," if (others := rest(len(found.far), 1)) else ""
    corrects = "" if found.method == "post-stratified" else _other_way(found.known)
    yield (
        f"Caution: the known share of {cell}, {100 * far.share:.1f} %{more} is not within what the "
        f"reports allow, [{100 * far.low:.1f}, {100 * far.high:.1f}] %. Either some people are "
        f"likelier to respond than others, or the margins are of another population.{corrects}"
    )


def _other_way(known: Sequence[Margin]) -> str:
    """Advice to use the other method, with its option."""
    one = ""
    if len(known) > 1:
        one = ", which takes one margin: of one attribute, or of several together"
    return (
        " This method corrects a part of the difference only. Use --calibrate-by post-stratified"
        f"{one}."
    )


def _margin_names(margins: Iterable[Margin]) -> str:
    return ", ".join(" by ".join(map(cut, margin.names)) for margin in margins)
