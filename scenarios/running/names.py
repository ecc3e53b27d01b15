"""Names and summaries of scenarios, without importing them."""

from __future__ import annotations

from collections.abc import Mapping

MODULES: Mapping[str, Mapping[str, str]] = {
    "scenarios.quickstart": {
        "quickstart": "A small town with dependent attributes, made here: RR-Independent.",
    },
    "scenarios.adult_surveys": {
        "adult-independent": "Adult, RR-Independent: each of 8 attributes randomized by itself.",
        "adult-joint": (
            "Adult, RR-Joint: all 8 attributes, 1,814,400 combinations, randomized as one."
        ),
        "adult-clusters": (
            "Adult, RR-Clusters: parties negotiate which attributes to randomize together."
        ),
        "adult-ind-joint": (
            "Adult, RR-Ind-Joint: attributes randomized apart, any joint table estimated."
        ),
        "adult-counts": (
            "Adult, secure sums: counts of attributes or pairs, with coins or exact, or of "
            "randomized pairs."
        ),
    },
    "scenarios.rrba": {
        "rrba-survey": "RRBA on the Survey network: 6 attributes, in blocks.",
        "rrba-alarm": "RRBA on the Alarm network: 37 attributes, in blocks.",
        "rrba-child": "RRBA on the Child network: 20 attributes, in blocks.",
    },
    "scenarios.marginals": {
        "taxi-marginals": (
            "Taxi trips, marginal release: every table of k bits by one of six methods."
        ),
        "taxi-independence": "Taxi trips: which pairs of bits are independent, by private tables.",
        "taxi-tree": "Taxi trips: a Chow-Liu tree from private tables of pairs.",
    },
    "scenarios.keyvalue": {
        "kv-gaussian": "50 keys whose frequencies are a bell curve, by PrivKV or PrivKVM.",
        "kv-power": "50 keys whose frequencies fall by a power law, by PrivKV or PrivKVM.",
        "kv-linear": "50 keys whose frequencies rise evenly, by PrivKV or PrivKVM.",
        "movielens": "Who rated which movies of MovieLens, and how, by PrivKV or PrivKVM.",
        "clothing": "Who rated which clothes of RentTheRunway, and how, by PrivKV or PrivKVM.",
    },
    "scenarios.noisy_sums": {
        "noisy-sums": (
            "A town's tables in sums, exact and with noise, and by the best local protocol."
        ),
    },
    "scenarios.town_means": {
        "town-means": (
            "Mean age and income of a town, made here: one bit, or the piecewise mechanism."
        ),
    },
    "scenarios.papers.rr.evaluation": {
        "rr-table-1": "Multi-Dimensional RR, Table I: relative error of RR-Clusters on Adult.",
        "rr-table-2": "Multi-Dimensional RR, Table II: relative error of RR-Clusters on Adult x 6.",
        "rr-figure-2": (
            "Multi-Dimensional RR, Figure 2: errors of RR-Independent and of raw reports."
        ),
        "rr-figure-3": (
            "Multi-Dimensional RR, Figure 3: relative errors with clusters and adjustment."
        ),
        "rr-query-sizes": (
            "Multi-Dimensional RR, 6.5: relative errors of queries on 2, 3 and 4 attributes."
        ),
    },
    "scenarios.papers.ind_joint.experiments": {
        "ind-joint-example": (
            "RR-Ind-Joint, section 3.3: ten parties with two attributes, step by step."
        ),
        "ind-joint-table-1": (
            "RR-Ind-Joint, Table 1: its error and RR-Ind's on three pairs of Adult."
        ),
        "ind-joint-figures": (
            "RR-Ind-Joint, Figures 1 to 12: its error and RR-Ind's, and where they are equal."
        ),
        "ind-joint-theorems": (
            "RR-Ind-Joint, Theorems 1 and 2, Corollary 1: composed matrices and their epsilon."
        ),
        "ind-joint-theorem-3": (
            "RR-Ind-Joint, Theorem 3: the squared error of RR-Ind and its bound."
        ),
    },
    "scenarios.papers.rr.statements": {
        "rr-figure-1": "Multi-Dimensional RR, Figure 1: the factor sqrt(B) against the categories.",
        "rr-matrix": (
            "Multi-Dimensional RR, section 2: the matrix, its inverse, epsilon, propagation."
        ),
        "rr-largest-errors": (
            "Multi-Dimensional RR, Expressions 5 and 6: how often their bounds hold."
        ),
        "rr-accuracy": "Multi-Dimensional RR, 3.3: relative errors of RR-Independent and RR-Joint.",
        "rr-proposition-1": (
            "Multi-Dimensional RR, 4.1: covariances after randomization, and their order."
        ),
        "rr-matrices": "Multi-Dimensional RR, 6.3: the printed matrices and those that sum to 1.",
        "rr-adjustment-example": "Multi-Dimensional RR, Example 1: RR-Adjustment of ten records.",
    },
    "scenarios.papers.rrba.statements": {
        "rrba-views": "RRBA, section 4: views of d attributes, and how often they have each group.",
        "rrba-equation-4": "RRBA, section 1.1 and Equation 4: the bias of estimates, exactly.",
        "rrba-equation-2": (
            "RRBA, Equation 2: the Jensen-Shannon divergence and the distance that is printed."
        ),
        "rrba-equation-7": (
            "RRBA, Equation 7: no table is better by the elastic net than the projection."
        ),
        "rrba-consistency": (
            "RRBA, 4.3: how far tables disagree, and their errors before and after agreeing."
        ),
    },
    "scenarios.papers.rrba.stopping": {
        "rrba-figure-4": "RRBA, Figure 4: the claimed epsilon of p beside the true one.",
        "rrba-figure-5": "RRBA, Figure 5: tuples until convergence by block size.",
        "rrba-figure-6": "RRBA, Figure 6: tuples until convergence by block size and p.",
    },
    "scenarios.papers.rrba.independence": {
        "rrba-table-4": (
            "RRBA, Table 4: tests of independence with Laplace noise, MCIndep and RRBA."
        ),
    },
    "scenarios.papers.rrba.accuracy": {
        "rrba-table-5": "RRBA, Table 5: errors of tables at p = 0.4, and of Laplace noise.",
        "rrba-table-6": "RRBA, Table 6: errors of tables at p = 0.5, and of Laplace noise.",
        "rrba-figure-7": (
            "RRBA, Figure 7: how the errors of randomized and of noisy tables are distributed."
        ),
    },
    "scenarios.papers.rrba.honest": {
        "rrba-honest": (
            "RRBA at equal true epsilon: adaptive or uniform fakes, one group or a whole view."
        ),
    },
    "scenarios.papers.frequency_oracles": {
        "frequency-oracles": "Wang et al. 2017: GRR or OUE is better, by domain size and epsilon.",
    },
    "scenarios.papers.marginals.experiments": {
        "marginals-sizes": (
            "Marginal release: bits of a report and numbers of coefficients, six methods."
        ),
        "marginals-transform": (
            "Marginal release: marginals from Hadamard coefficients of at most k attributes."
        ),
        "marginals-errors": (
            "Marginal release: how the error of a coefficient falls with epsilon and N."
        ),
        "marginals-figure-6": (
            "Marginal release, Figure 6: mean total variation by epsilon, six methods."
        ),
        "marginals-figure-7": (
            "Marginal release, Figure 7: chi-squared statistics of pairs, 256K trips."
        ),
    },
    "scenarios.papers.privkv.experiments": {
        "privkv-table-2": "EM for PrivKV, Table 2: statistics of the synthetic populations.",
        "privkv-table-4": "EM for PrivKV, Table 4: squared errors of frequencies by epsilon.",
        "privkv-table-5": "EM for PrivKV, Table 5: squared errors of frequencies by respondents.",
        "privkv-figures": (
            "EM for PrivKV, Figures 1 to 8 and 11 to 13: errors of means, and MovieLens."
        ),
        "privkv-table-1": (
            "EM for PrivKV, Table 1: the law of a report, its posterior and its epsilon."
        ),
        "privkv-theorem-1": "EM for PrivKV, Theorem 1: what the estimates make of expected counts.",
        "privkv-virtual": "PrivKV: means after rounds of PrivKVM that nobody is asked in.",
    },
}
"""The modules that define the built-in scenarios and reproductions, with names and summaries."""

SCENARIOS: Mapping[str, str] = {name: module for module in MODULES for name in MODULES[module]}
"""The module that defines a scenario, by the scenario's name."""

SURVEYS: Mapping[str, str] = {
    "scenarios.quickstart": "A small town answers four questions, one of them about its health",
    "scenarios.adult_surveys": "Surveys of the 32,561 records of Adult",
    "scenarios.rrba": "RRBA on samples of three Bayesian networks",
    "scenarios.marginals": "Marginal release on taxi trips",
    "scenarios.keyvalue": "PrivKV and PrivKVM on keys with values",
    "scenarios.noisy_sums": "A town's tables in sums with noise, and without",
    "scenarios.town_means": "Ages and incomes of a made-up town, on grids",
}
"""Modules of scenarios, and what those are about."""

REPRODUCTIONS: Mapping[str, str] = {
    "scenarios.papers.rr": "The tables and figures of multi-dimensional randomized response",
    "scenarios.papers.ind_joint": "The example, tables and figures of RR-Ind-Joint",
    "scenarios.papers.rrba": "The tables and figures of RRBA",
    "scenarios.papers.frequency_oracles": "The crossover of OUE and GRR",
    "scenarios.papers.marginals": "The figures of marginal release",
    "scenarios.papers.privkv": "The tables and figures of PrivKV",
}
"""Modules or packages of reproductions, and what those are about."""


def summaries_in(family: str) -> dict[str, str]:
    """The names and summaries of the scenarios in a module or a package."""
    found: dict[str, str] = {}
    for module, summaries in MODULES.items():
        if f"{module}.".startswith(f"{family}."):
            found |= summaries
    return found
