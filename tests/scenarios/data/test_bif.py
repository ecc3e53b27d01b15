"""The reader of networks in BIF format: what it reads, and that it refuses all else by line."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.data import DatasetError
from scenarios.data.bif import Variable, read_bif
from scenarios.data.networks import Network

TEXT = """\
network weather {
}
variable Rain {
  type discrete [ 2 ] { yes, no };
}
variable Road {
  type discrete [ 3 ] { <5, 5-12, Asy/Patch };
}
variable Late {
  type discrete [ 2 ] { yes, no };
}
probability ( Rain ) {
  table 0.2, 0.8;
}
probability ( Road | Rain ) {
  (yes) 0.5, 0.25, 0.25;
  (no) 0.1, 0, 0.9;
}
probability ( Late | Road, Rain ) {
  (<5, yes) 0.9, 0.1;
  (5-12, yes) 0.8, 0.2;
  (Asy/Patch, yes) 0.7, 0.3;
  (<5, no) 0.6, 0.4;
  (5-12, no) 0.5, 0.5;
  (Asy/Patch, no) 1, 0;
}
"""


def fractions(*texts: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(text) for text in texts)


RAIN = Variable(name="Rain", categories=("yes", "no"), parents=(), rows=(fractions("1/5", "4/5"),))
ROAD = Variable(
    name="Road",
    categories=("<5", "5-12", "Asy/Patch"),
    parents=("Rain",),
    rows=(fractions("1/2", "1/4", "1/4"), fractions("1/10", "0", "9/10")),
)
LATE = Variable(
    name="Late",
    categories=("yes", "no"),
    parents=("Road", "Rain"),
    rows=tuple((Fraction(k, 10), Fraction(10 - k, 10)) for k in (9, 6, 8, 5, 7, 10)),
)


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


# What is read


def test_rows_are_exact_and_in_order_of_the_parents() -> None:
    assert read_bif(TEXT) == (RAIN, ROAD, LATE)


def test_layout_comments_and_properties_do_not_matter() -> None:
    loose = changed("{\n}", '{ property "a; b } {" ; property version 1.0 ; } // a {\n/* b\n{ */')
    loose = loose.replace("  type", "\tproperty position = (73, 165) ;\n type")
    loose = loose.replace("  table", "property x;table // 0.5\n").replace(
        "(yes)", "( yes/**/)/*(*/"
    )
    loose = loose.replace("yes, no }", "yes// }\n, no/*\n}*/ }")
    assert read_bif(loose) == (RAIN, ROAD, LATE)
    assert read_bif(TEXT.replace("\n", "\r\n")) == (RAIN, ROAD, LATE)
    assert read_bif(" ".join(TEXT.split())) == (RAIN, ROAD, LATE)
    assert read_bif(changed("network weather", "network")) == (RAIN, ROAD, LATE)
    assert read_bif(changed("0.2, 0.8", "2e-1, +.8")) == (RAIN, ROAD, LATE)


def test_rows_and_tables_come_in_any_order() -> None:
    blocks = re.split(r"(?m)^(?=probability)", TEXT)
    tables = [
        "{\n".join([head.rstrip(), "\n".join(reversed(body.strip(" \n}").split("\n"))) + "\n}\n"])
        for head, body in (block.split("{", 1) for block in blocks[1:])
    ]
    assert tables[2] != blocks[3]
    assert read_bif(blocks[0] + "".join(reversed(tables))) == (RAIN, ROAD, LATE)


def test_a_child_may_be_declared_before_its_parents() -> None:
    head, *blocks = re.split(r"(?m)^(?=variable|probability)", TEXT)
    late = head + blocks[2] + blocks[0] + blocks[1] + "".join(blocks[3:])
    assert read_bif(late) == (LATE, RAIN, ROAD)


def test_quoted_names_may_hold_blanks_and_marks() -> None:
    quoted = TEXT.replace("Asy/Patch", '"wet; (very) // {"').replace("Rain", '"Heavy rain"')
    rain, road, late = read_bif(quoted)
    assert rain.name == "Heavy rain"
    assert road.categories[2] == "wet; (very) // {"
    assert late.rows == LATE.rows


@pytest.mark.parametrize("row", ["0.3333333, 0.3333333, 0.3333333", "1, 1e-7, 0.0"])
def test_rows_within_the_tolerance_are_renormalised_exactly(row: str) -> None:
    road = read_bif(changed("0.1, 0, 0.9", row))[1]
    written = [Fraction(text) for text in row.split(", ")]
    assert road.rows[1] == tuple(entry / sum(written) for entry in written)
    assert sum(road.rows[1]) == 1


names = st.text("abcXYZ019_-+<>=./ ", min_size=1, max_size=8).filter(
    lambda name: name == name.strip()
)


@st.composite
def variables(draw: st.DrawFn) -> tuple[Variable, ...]:
    drawn: list[Variable] = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        categories = tuple(draw(st.lists(names, min_size=2, max_size=3, unique=True)))
        parents = draw(st.lists(st.sampled_from(drawn), max_size=2, unique=True)) if drawn else []
        rows = 1
        for parent in parents:
            rows *= len(parent.categories)
        weights = st.lists(st.integers(0, 100), min_size=len(categories), max_size=len(categories))
        table = []
        for row in draw(st.lists(weights.filter(any), min_size=rows, max_size=rows)):
            table.append(tuple(Fraction(weight, sum(row)) for weight in row))
        listed = tuple(parent.name for parent in parents)
        drawn.append(Variable(name=name, categories=categories, parents=listed, rows=tuple(table)))
    return tuple(drawn)


def written(variables: tuple[Variable, ...]) -> str:
    """The text of variables; 30 decimals of every probability."""
    lines, places = ["network x {", "}"], {each.name: each for each in variables}
    for each in variables:
        categories = ", ".join(f'"{category}"' for category in each.categories)
        lines += [f'variable "{each.name}" {{', f"type discrete [{len(each.categories)}]"]
        lines += [f"{{ {categories} }};", "}"]
    for each in variables:
        combinations: list[list[str]] = [[]]
        for parent in each.parents:
            combinations = [[*c, f'"{v}"'] for c in combinations for v in places[parent].categories]
        given = " | " + ", ".join(f'"{parent}"' for parent in each.parents) if each.parents else ""
        lines.append(f'probability ( "{each.name}"{given} ) {{')
        for combination, row in zip(combinations, each.rows, strict=True):
            begun = f"({', '.join(combination)})" if each.parents else "table"
            entries = [f"0.{round(p * 10**30):030d}" if p < 1 else "1" for p in row]
            lines.append(f"{begun} {', '.join(entries)};")
        lines.append("}")
    return "\n".join(lines)


@given(variables())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_back(network: tuple[Variable, ...]) -> None:
    back = read_bif(written(network))
    assert [(v.name, v.categories, v.parents) for v in back] == [
        (v.name, v.categories, v.parents) for v in network
    ]
    for read, given_ in zip(back, network, strict=True):
        for row, expected in zip(read.rows, given_.rows, strict=True):
            assert sum(row) == 1
            assert all(abs(p - q) < Fraction(1, 10**28) for p, q in zip(row, expected, strict=True))


# What is refused


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("variable Road", "variable Rain", "line 7: variable 'Rain' is declared twice"),
        ("[ 2 ]", "[ 3 ]", "line 4: 2 categories, declared as '3'"),
        ("discrete [ 2 ]", "continuous [ 2 ]", "line 4: expected discrete, got 'continuous'"),
        ("  type discrete [ 2 ] { yes, no };\n", "", "line 4: variable 'Rain' has no type"),
        ("{ yes, no };", "{ yes, no }", "line 5: expected ;, got '}'"),
        ("{ yes, no }", "{ yes no }", "line 4: expected , or }, got 'no'"),
        ("{ yes, no }", "{ yes, no, }", "line 4: expected a name, got '}'"),
        ("( Rain )", "( Snow )", "line 12: variable 'Snow' is unknown"),
        ("( Road | Rain )", "( Road | Snow )", "variable 'Road': unknown parent 'Snow'"),
        ("( Road | Rain )", "( Rain )", "line 15: variable 'Rain' .* has probabilities twice"),
        ("( Road | Rain )", "( Road , Rain )", r"line 15: expected \| or \), got ','"),
        ("( Road | Rain )", "( Road | )", r"line 15: expected a name, got '\)'"),
        ("(yes) 0.5", "(maybe) 0.5", r"variable 'Road' has no row for \('yes',\)"),
        ("(<5, yes)", "(<5)", r"variable 'Late' has no row for \('<5', 'yes'\)"),
        ("(<5, no)", "(<5, yes)", "line 23: variable 'Late': this row is given twice"),
        ("  (5-12, no) 0.5, 0.5;\n", "", "variable 'Late': 5 rows, expected one for each"),
        ("table 0.2, 0.8;", "", "variable 'Rain': 0 rows"),
        ("table 0.2, 0.8;", "table 0.2, 0.8; table 0.2, 0.8;", "line 13: .*row is given twice"),
        ("(yes) 0.5, 0.25, 0.25;", "table 0.5, 0.25, 0.25;", "line 16: expected .* got 'table'"),
        ("(yes) 0.5, 0.25, 0.25;", "default 0.5, 0.5, 0;", "line 16: expected .* got 'default'"),
        ("0.2, 0.8", "0.2, 0.7999", "line 13: '0.2, 0.7999': expected 2 probabilities"),
        ("0.2, 0.8", "0.2, 0.800002", "line 13: '0.2, 0.800002': expected 2 probabilities"),
        ("0.2, 0.8", "-0.2, 1.2", "line 13: '-0.2, 1.2': expected 2 probabilities"),
        ("0.2, 0.8", "1", "line 13: '1': expected 2 probabilities"),
        ("0.2, 0.8", "0.2 0.8", "line 13: expected , or ;, got '0.8'"),
        ("0.2, 0.8", "nan, 0.2, 0.8", "line 13: 'nan, 0.2, 0.8': expected 2"),
        ("0.2, 0.8", "1/5, 0.8", "line 13: '1/5, 0.8': expected 2"),
        ("0.2, 0.8", "1e999999999, 0", "line 13: '1e999999999, 0': expected 2"),
        ("0.2, 0.8", "0." + "1" * 5000 + ", 0", "line 13: '0.111.*expected 2"),
        ("network weather {\n}\n", "", "line 1: expected network, got 'variable'"),
        ("network weather {", "network weather { version 1;", "line 1: .* got 'version'"),
        ("variable Rain", "network again { }\nvariable Rain", "line 3: expected variable or pro"),
        ("variable Rain", '"variable" Rain', "line 3: expected variable or"),
        ("variable Rain", "variable { Rain", "line 3: expected a name, got '{'"),
        ("(5-12, no)", "/* (5-12, no)", "line 24: a comment or a quotation that does not end"),
        ("(5-12, no)", '("5-12, no)', "line 24: a comment or a quotation that does not end"),
        ("1, 0;\n}\n", "1, 0", "line 25: the text ends in the middle of a block"),
        ("1, 0;\n}\n", "1, 0;\nproperty x }\n", "line 26: the text ends in the middle"),
    ],
)
def test_a_planted_error_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        read_bif(changed(old, new))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_variable_without_probabilities() -> None:
    without = TEXT[: TEXT.index("probability ( Late")]
    with pytest.raises(DatasetError, match="variable 'Late' has no probabilities"):
        read_bif(without)
    with pytest.raises(DatasetError, match="line 1: the text ends"):
        read_bif("")


def test_a_table_is_refused_before_it_is_made() -> None:
    head = ["network x { }"]
    head += [f"variable v{k} {{ type discrete [ 2 ] {{ a, b }}; }}" for k in range(1000)]
    parents = ", ".join(f"v{k}" for k in range(1, 1000))
    text = "\n".join([*head, f"probability ( v0 | {parents} ) {{ }}"])
    with pytest.raises(DatasetError, match="variable 'v0': 0 rows"):
        read_bif(text)


@pytest.mark.slow
def test_a_long_chain_and_deep_nesting_need_no_stack() -> None:
    n = 4000
    lines = ["network x { }"]
    lines += [f"variable v{k} {{ type discrete [ 2 ] {{ a, b }}; }}" for k in range(n)]
    lines.append("probability ( v0 ) { table 0.5, 0.5; }")
    lines += [f"probability ( v{k} | v{k - 1} ) {{ (a) 1, 0; (b) 0, 1; }}" for k in range(1, n)]
    assert len(Network("chain", read_bif("\n".join(lines))).names) == n
    with pytest.raises(DatasetError, match="line 1"):
        read_bif("network x " + "{" * 100_000)
