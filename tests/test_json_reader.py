"""JSON of others: what Python's reader takes without a word is refused, in linear time; the rest is the same value."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dftfd.errors import FileError
from dftfd.runtime.json_reader import MAX_DEPTH, parse_json, read_json

WORDS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=40, deadline=None)
@given(VALUES, st.booleans())
def test_documents_are_what_python_reads(value, is_ascii):
    """Strings with brackets, quotes and long numbers in them included, as text and as bytes with a byte order mark."""
    text = json.dumps(value, ensure_ascii=is_ascii)
    if "\\ud" not in text:  # lone surrogates have no bytes
        assert parse_json(("\ufeff" + text).encode("utf-8", "surrogatepass")) == value
    assert parse_json(text) == value


@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.slow)])
def test_any_text_is_a_value_or_a_reason(count):
    pieces = st.lists(st.sampled_from(['"', "\\", "[", "]", "{", "}", ":", ",", "1", "e9", "a", "-", "NaN", "\ufeff"]))

    @settings(max_examples=count, deadline=None)
    @given(pieces.map("".join) | st.text(max_size=40))
    def read(text):
        try:
            parse_json(text)
        except ValueError as error:
            assert str(error)

    read()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' occurs twice"),
        ('{"a": 1, "\\u0061": 2}', "'a' occurs twice"),
        ("[NaN]", "NaN"),
        ("[-Infinity]", "Infinity"),
        ("[1e999]", "beyond the largest"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "64 deep"),
        ("[" + "7" * 1000 + "]", "more than a thousand digits"),
    ],
)
def test_what_python_takes_is_refused(text, reason):
    json.loads(text)
    with pytest.raises(FileError, match=f"here is not JSON: .*{reason}"):
        read_json(text, "here")


@pytest.mark.parametrize("text", ['"' * 10**5, '"\\' * 10**5, '{"a":' * 10**5, "1" * 10**5, '"' + "\\" * 10**5])
def test_what_goes_on_and_on_is_answered_at_once(text):
    """A hundred thousand of anything within a second, where a square would take minutes."""
    start = time.process_time()
    with pytest.raises(ValueError, match="."):
        parse_json(text)
    assert time.process_time() - start < 1.0
