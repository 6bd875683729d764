"""Each rule of gitignore(5)."""

import pytest

from xmcloud.xm_cloud.archives.patterns import Pattern, parse_lines


@pytest.mark.parametrize(
    ("line", "matching", "others"),
    [
        ("foo", ["foo", "a/foo"], ["food", "foo/a"]),
        ("/foo", ["foo"], ["a/foo"]),
        ("a/b", ["a/b"], ["x/a/b"]),
        ("*.py", ["a.py", "a/b.py", ".py"], ["a.pyc"]),
        ("a/*.py", ["a/b.py"], ["a/b/c.py"]),
        ("**/foo", ["foo", "a/foo", "a/b/foo"], ["afoo"]),
        ("a/**", ["a/b", "a/b/c"], ["a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("a**b", ["ab", "axb", "x/axb"], ["a/b"]),
        ("fo?", ["foo", "a/fob"], ["fo", "fo/"]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[!a-c]x", ["dx"], ["ax", "a/x/x/ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]a]x", ["]x", "ax"], ["x"]),
        ("[a-]x", ["-x", "ax"], ["bx"]),
        ("[[:digit:]_]x", ["1x", "_x"], ["ax"]),
        ("[\\]]x", ["]x"], ["\\x"]),
        ("a[!b]c", ["axc"], ["a/c"]),
        ("\\#x", ["#x"], ["\\#x"]),
        ("\\!x", ["!x"], ["x"]),
        ("\\*", ["*"], ["a"]),
        ("a\\ ", ["a "], ["a"]),
        ("a  ", ["a"], ["a  "]),
        ("a\r", ["a"], ["a\r"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_what_a_pattern_matches(line: str, matching: list[str], others: list[str]) -> None:
    pattern = Pattern.parse(line)
    assert pattern is not None
    assert pattern.ignores
    assert [name for name in matching if not pattern.matches(name, False)] == []
    assert [name for name in others if pattern.matches(name, False)] == []


@pytest.mark.parametrize(
    "line", ["", "   ", "# note", "!", "/", "[ab", "a\\", "[a", "[[:none:]]", "[z-"]
)
def test_a_line_that_says_nothing(line: str) -> None:
    assert Pattern.parse(line) is None


def test_an_exception_and_a_folder() -> None:
    [last, first] = parse_lines("\ufefflogs/\n\n!logs/keep/\n")
    assert (first.ignores, last.ignores) == (True, False)
    assert first.matches("a/logs", is_folder=True)
    assert not first.matches("logs", is_folder=False)
