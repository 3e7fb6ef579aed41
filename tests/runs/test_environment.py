"""The command and the computer of a result."""

from __future__ import annotations

import sys

import pytest

from densefield.runs.environment import command_line


@pytest.mark.parametrize(
    "arguments, command",
    [
        (["/usr/bin/densefield", "tune", "a run", "-o", "out"], "densefield tune 'a run' -o out"),
        (["/lib/densefield/__main__.py", "eval", "run"], "densefield eval run"),
    ],
)
def test_the_command_line_can_be_pasted_into_a_shell(monkeypatch, arguments, command):
    monkeypatch.setattr(sys, "argv", arguments)
    assert command_line() == command
