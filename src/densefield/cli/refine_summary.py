"""What `densefield refine` prints and logs: findings on stdout, summaries and failures on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from densefield.cli.failing import as_flags, say, tell
from densefield.io.messages import printable

if TYPE_CHECKING:
    from densefield.images.refining import RefinedFiles

MOST_NAMES = 10  # of images without a mask, which a folder may have thousands of
MOST_FAILURES = 20  # on the terminal, where a log has them all

# Arguments that messages of the library name, and what a user of the command line does instead.
FLAGS = {
    "soft=True": "--soft",
    "logits=True": "--logits",
    "recursive=True": "--recursive",
    "mask_suffix=": "--mask-suffix ",
    "num_classes=": "--labels ",
    "num_classes is": "--labels is",
    "void=": "--void ",
    "confidence is": "--confidence is",
    "threads is": "--threads is",
    "use logits=": "use --logits",
    "as logits=": "with --logits",
    "logits=-energies": "the negative array",
    "Pass -energies": "Pass the negative array",
    "Pass their logarithms, or use refine(image, p)": "Leave out --logits",
    "as probabilities=": "without --logits",
    "probabilities= for": "a floating point array for",
    "use labels=": "use an integer array",
    "pass labels=mask > 0": "leave out --void and --labels, and save it as a grey picture",
    "Leave those pixels out with ignore=numpy.isnan(probabilities).any(axis=0)": "Replace them in the array",
    "Leave those pixels out with ignore=numpy.isnan(probabilities)": "Replace them in the array",
}
FLAGS_OF_KERNELS = {
    "sigma_xy": "--sigma-xy",
    "sigma_rgb": "--sigma-rgb",
    "kernels=[Spatial(3)]": "--bilateral-weight 0",
    "kernels = []": "--weight 0 --bilateral-weight 0",
    "Pass Spatial or Bilateral": "Raise --weight or --bilateral-weight",
}


class FailureLog:
    """A file with one line for each failed file, written as it fails; nothing where there is no path."""

    def __init__(self, path: Path | None, flags: Mapping[str, str]) -> None:
        self._path = path
        self._flags = flags
        self._file: TextIO | None = None

    def __enter__(self) -> FailureLog:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8", buffering=1)  # every line is on the disk at once
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, failure: str) -> None:
        """Writes the line."""
        if self._file is not None:
            self._file.write(printable(as_flags(failure, self._flags)) + "\n")


def print_findings(refined: RefinedFiles, flags: Mapping[str, str]) -> None:
    """What `explain` found, on stdout."""
    for outcome in refined.outcomes:
        if len(refined.pairing.pairs) != 1:
            tell(f"{outcome.pair.image}:")
        for finding in outcome.findings:
            tell(as_flags(str(finding), flags))


def print_summary(refined: RefinedFiles, log: Path | None, flags: Mapping[str, str]) -> None:
    """How masks were read, what was skipped, what failed, and how many were refined, on stderr."""
    _print_forms(refined)
    for line in refined.pairing.skipped:
        say(line, flags)
    alone = refined.pairing.images_alone
    if alone:
        names = ", ".join(path.name for path in alone[:MOST_NAMES]) + (", …" if alone[MOST_NAMES:] else "")
        say(f"images without a mask: {len(alone)} ({names})")
    failures = refined.failures
    shown = failures if log is None else failures[:MOST_FAILURES]
    for failure in shown:
        say(failure, flags)
    if failures[len(shown) :]:
        say(f"and {len(failures) - len(shown)} more failures, which are in {log}")
    if len(refined.pairing.pairs) != 1 or refined.skipped:
        done = sum(outcome.error is None for outcome in refined.outcomes)
        counts = [f"refined: {done}", f"failed: {len(failures)}"]
        counts += [f"skipped, since the result exists: {len(refined.skipped)}"] if refined.skipped else []
        say("; ".join(counts))


def _print_forms(refined: RefinedFiles) -> None:
    forms = [outcome.form for outcome in refined.outcomes]
    objects, labels = forms.count("object"), forms.count("labels")
    if objects and labels:
        say(
            f"binary masks, such as 0/255: {objects}; masks of labels: {labels}. If all hold labels, pass their number "
            "as --labels."
        )
    if "voc colours" in forms:
        say(f"masks in the colours of PASCAL VOC, numbered as VOC does: {forms.count('voc colours')}")
    if "colours" in forms:
        say(
            f"masks in other colours: {forms.count('colours')}. In each of them, labels are numbered from 0 in the "
            "order of its colours, by r, then g, then b."
        )
