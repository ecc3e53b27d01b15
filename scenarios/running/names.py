"""Names of scenarios, without importing them."""

from __future__ import annotations

from collections.abc import Mapping

MODULES: Mapping[str, tuple[str, ...]] = {
    "scenarios.quickstart": ("quickstart",),
    "scenarios.adult_surveys": (
        "adult-independent",
        "adult-joint",
        "adult-clusters",
        "adult-ind-joint",
        "adult-counts",
    ),
    "scenarios.rrba": ("rrba-survey", "rrba-alarm", "rrba-child"),
    "scenarios.marginals": ("taxi-marginals", "taxi-independence", "taxi-tree"),
    "scenarios.keyvalue": ("kv-gaussian", "kv-power", "kv-linear", "movielens", "clothing"),
    "scenarios.town_means": ("town-means",),
    "scenarios.reproductions.rr.evaluation": (
        "rr-table-1",
        "rr-table-2",
        "rr-figure-2",
        "rr-figure-3",
        "rr-query-sizes",
    ),
    "scenarios.reproductions.ind_joint.experiments": (
        "ind-joint-example",
        "ind-joint-table-1",
        "ind-joint-figures",
        "ind-joint-theorems",
        "ind-joint-theorem-3",
    ),
    "scenarios.reproductions.rr.statements": (
        "rr-figure-1",
        "rr-matrix",
        "rr-largest-errors",
        "rr-accuracy",
        "rr-proposition-1",
        "rr-matrices",
        "rr-adjustment-example",
    ),
    "scenarios.reproductions.rrba.statements": (
        "rrba-views",
        "rrba-equation-4",
        "rrba-equation-2",
        "rrba-equation-7",
        "rrba-consistency",
    ),
    "scenarios.reproductions.rrba.convergence": (
        "rrba-figure-4",
        "rrba-figure-5",
        "rrba-figure-6",
    ),
    "scenarios.reproductions.rrba.independence": ("rrba-table-4",),
    "scenarios.reproductions.rrba.accuracy": ("rrba-table-5", "rrba-table-6", "rrba-figure-7"),
    "scenarios.reproductions.rrba.honest": ("rrba-honest",),
    "scenarios.reproductions.frequency_oracles": ("frequency-oracles",),
    "scenarios.reproductions.marginals.experiments": (
        "marginals-sizes",
        "marginals-transform",
        "marginals-errors",
        "marginals-figure-6",
        "marginals-figure-7",
    ),
    "scenarios.reproductions.privkv.experiments": (
        "privkv-table-2",
        "privkv-table-4",
        "privkv-table-5",
        "privkv-figures",
        "privkv-table-1",
        "privkv-theorem-1",
        "privkv-virtual",
    ),
}
"""The modules that define the built-in scenarios and reproductions, with their names."""

SCENARIOS: Mapping[str, str] = {name: module for module in MODULES for name in MODULES[module]}
"""The module that defines a scenario, by the scenario's name."""
