"""The output of `densefield refine`: findings on stdout, summaries and failures on stderr, and a log file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from densefield.cli.messages import as_flags, print_message, print_result
from densefield.io.messages import first_names, printable

if TYPE_CHECKING:
    from densefield.images.refining import RefinedFiles

MAX_FAILURES = 20  # on the terminal, if a log has all

# Python arguments in messages of the library → options of `refine`.
FLAGS = {
    "soft=True": "--soft",
    "logits=True": "--logits",
    "recursive=True": "--recursive",
    "mask_suffix=": "--mask-suffix ",
    "num_classes=": "--num-classes ",
    "num_classes is": "--num-classes is",
    "void=": "--void ",
    "confidence is": "--confidence is",
    "roughness is": "--roughness is",
    "roughness=": "--roughness ",
    "temperature is": "--temperature is",
    "temperature=": "--temperature ",
    "confidence=": "--confidence ",
    "with labels=": "with a mask of labels",
    "without labels=": "without a mask of labels",
    "threads is": "--threads is",
    "use logits=": "use --logits",
    "as logits=": "with --logits",
    "logits=-energies": "the negative array",
    "Pass -energies": "Pass the negative array",
    "Pass their logarithms, or use refine(image, probabilities=p)": "Leave out --logits",
    "as probabilities=": "without --logits",
    "probabilities= for": "a floating point array for",
    "window is": "--window is",
    "window=": "--window ",
    "spacing is": "--spacing is",
    "spacing=": "--spacing ",
    "tile is": "--tile is",
    "tile=": "--tile ",
    "crf=": "--crf ",
    "iterations=": "--iterations ",
    "explain=True": "--explain",
    "preview=": "--preview",
    "decode=": "--decode",
    "use labels=": "use an integer array",
    "pass labels=mask > 0": "leave out --void and --num-classes, and save it as a grey picture",
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


@contextmanager
def failure_log(path: Path | None, flags: Mapping[str, str]) -> Iterator[Callable[[str], None] | None]:
    """A function that writes a line for a failed file to the log at once; None without a path."""
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", buffering=1) as file:  # line by line
        yield lambda failure: print(printable(as_flags(failure, flags)), file=file)


def print_findings(refined: RefinedFiles, flags: Mapping[str, str]) -> None:
    """Prints the findings of `explain` on stdout."""
    for outcome in refined.outcomes:
        if len(refined.pairing.pairs) != 1:
            print_result(f"{outcome.pair.image}:")
        for finding in outcome.findings:
            print_result(as_flags(str(finding), flags))


def print_summary(refined: RefinedFiles, log: Path | None, flags: Mapping[str, str]) -> None:
    """Prints on stderr how masks were read, skipped files, failures, and counts."""
    _print_forms(refined)
    for line in refined.pairing.skipped:
        print_message(line, flags)
    alone = refined.pairing.images_alone
    if alone:
        print_message(f"images without a mask: {len(alone)} ({first_names([path.name for path in alone])})")
    failures = refined.failures
    shown = failures if log is None else failures[:MAX_FAILURES]
    for failure in shown:
        print_message(failure, flags)
    if failures[len(shown) :]:
        print_message(f"and {len(failures) - len(shown)} more failures, see {log}")
    if len(refined.pairing.pairs) != 1 or refined.skipped:
        done = sum(outcome.error is None for outcome in refined.outcomes)
        counts = [f"refined: {done}", f"failed: {len(failures)}"]
        counts += [f"skipped, since the result exists: {len(refined.skipped)}"] if refined.skipped else []
        print_message("; ".join(counts))


def _print_forms(refined: RefinedFiles) -> None:
    forms = [outcome.form for outcome in refined.outcomes]
    binary, labels = forms.count("binary"), forms.count("labels")
    if binary and labels:
        print_message(
            f"binary masks, such as 0/255: {binary}; masks of labels: {labels}. If all hold labels, pass their number "
            "as --num-classes."
        )
    if "voc colours" in forms:
        print_message(f"masks in the colours of PASCAL VOC, numbered as VOC does: {forms.count('voc colours')}")
    if "colours" in forms:
        print_message(
            f"masks in other colours: {forms.count('colours')}. In each of them, labels are numbered from 0 in the "
            "order of its colours, by r, then g, then b."
        )
