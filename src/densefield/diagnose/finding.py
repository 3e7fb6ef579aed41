"""What the doctor says: one observation, the numbers that show it, and the cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["problem", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that was seen: `what` in a sentence, `numbers` that show it, and the `cure` where there is one.

    A "problem" explains a result that is blank, unchanged or wrong; a "note" is worth knowing.

    >>> print(Finding("problem", "No update is made.", "iterations = 0", "Use 5 iterations."))
    problem: No update is made.
      seen: iterations = 0
      cure: Use 5 iterations.
    """

    severity: Severity
    what: str
    numbers: str = ""
    cure: str = ""

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.what}"]
        if self.numbers:
            lines.append(f"  seen: {self.numbers}")
        if self.cure:
            lines.append(f"  cure: {self.cure}")
        return "\n".join(lines)


def percent(share: float) -> str:
    """A share in words that never call something nothing, nor nearly all all.

    >>> percent(0.256), percent(0.0001), percent(0.0), percent(0.99999)
    ('25.6%', 'less than 0.1%', '0%', 'more than 99.9%')
    """
    if 0 < share < 0.001:
        return "less than 0.1%"
    if 0.999 < share < 1:
        return "more than 99.9%"
    return f"{100 * share:.1f}".removesuffix(".0") + "%"
