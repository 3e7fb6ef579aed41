"""The shown result as text to copy: Python, command line, and crf.toml."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from densefield.crf.crf_file import crf_to_toml
from densefield.crf.crf_tables import kernel_to_table
from densefield.crf.kernels import Bilateral, Kernel, Spatial
from densefield.crf.model import CRF
from densefield.errors import InputError
from densefield.explorer.gallery import Picture, Reading
from densefield.explorer.inference import Result
from densefield.explorer.saving import InputFile, input_file
from densefield.explorer.settings import DATA_RANGE, Settings
from densefield.io.files import write_atomically

Form = Literal["python", "command"]


@dataclass(frozen=True)
class Snippet:
    """Text to copy, and the files that were saved for it."""

    text: str
    files: tuple[Path, ...] = ()


def crf_text(settings: Settings) -> str:
    """The content of crf.toml, which needs no result."""
    if settings.crf is None:
        raise InputError("The learnt model has no crf.toml: choose kernels, or copy Python or the command line.")
    return crf_to_toml(settings.crf)


def snippet(form: Form, picture: Picture, settings: Settings, result: Result, reading: Reading, out: Path) -> Snippet:
    """The text of one form; what it needs and no file holds is saved in the folder `out`."""
    source = input_file(picture, result, out)
    files = (source.path,) if source.new else ()
    if form == "python":
        return Snippet(python_text(picture, settings, result, reading, source), files)
    crf_path = out.absolute() / f"{picture.entry.name}-crf.toml"
    words, uses_file = command_words(picture, settings, result, reading, source, crf_path)
    if uses_file and settings.crf is not None:
        write_atomically(crf_path, crf_to_toml(settings.crf).encode())
        files = (*files, crf_path)
    words += ["-o", str(out.absolute() / f"{picture.entry.name}.png")]
    return Snippet((subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)) + "\n", files)


def python_text(picture: Picture, settings: Settings, result: Result, reading: Reading, source: InputFile) -> str:
    """A program that computes the result again, bit for bit."""
    given = result.given
    name = next(name for name in ("labels", "probabilities", "logits") if name in given.arguments)
    arguments: dict[str, str] = {name: "mask.values" if source.is_mask else "scores"}
    if name == "labels":
        arguments["void"] = "mask.void"
    arguments |= {key: repr(value) for key, value in _numbers(settings, given.arguments).items()}
    arguments |= {"data_range": repr(DATA_RANGE)} | ({} if settings.crf is None else {"crf": "crf"})
    call = ", ".join(f"{key}={value}" for key, value in arguments.items())

    image = repr(str(picture.entry.image.absolute()))
    numpy = ["import numpy as np", ""] if not source.is_mask else []
    readers = "read_image, read_mask" if source.is_mask else "read_image"
    lines = ["from pathlib import Path", "", *numpy, "import densefield"]
    lines += [] if settings.crf is None else [f"from densefield import {', '.join(_classes(settings.crf))}"]
    lines += [f"from densefield.images import {readers}", ""]
    if source.is_mask:
        how = "" if source.new else "".join(f", {key}={value!r}" for key, value in _changed(reading).items())
        lines.append(f"mask = read_mask(Path({str(source.path)!r}){how})")
        lines.append(f"image = read_image(Path({image}), mask.size)")
    else:
        lines.append(f"scores = np.load({str(source.path)!r})  # (classes, rows, columns)")
        lines.append(f"image = read_image(Path({image}))")
    lines += [] if settings.crf is None else _crf_lines(settings.crf)
    lines.append(f"probabilities = densefield.refine(image, {call})")
    lines.append("labels = probabilities.argmax(axis=0)")
    return "\n".join(lines) + "\n"


def command_words(
    picture: Picture, settings: Settings, result: Result, reading: Reading, source: InputFile, crf_path: Path
) -> tuple[list[str], bool]:
    """`densefield refine` with the same result, and whether it reads the CRF from `crf_path`."""
    words = ["densefield", "refine", str(picture.entry.image.absolute()), str(source.path)]
    words += ["--logits"] if "logits" in result.given.arguments else []
    words += ["--soft"] if reading.soft and not source.new else []
    options = _numbers(settings, result.given.arguments)
    if reading.void != "auto" and not source.new:
        options["void"] = reading.void
    flags = None if settings.crf is None else _flags(settings.crf)
    uses_file = settings.crf is not None and flags is None
    options |= {"crf": crf_path} if uses_file else flags or {}
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words, uses_file


def _numbers(settings: Settings, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `refine` that are single numbers."""
    names = ("num_classes", "confidence", "temperature", "roughness")
    found = {name: value for name, value in arguments.items() if name in names}
    return {**found, "iterations": settings.iterations} if settings.model == "learnt" else found


def _changed(reading: Reading) -> dict[str, Any]:
    """The parameters of `read_mask` that differ from their defaults."""
    every = {name: getattr(reading, name) for name in Reading.__dataclass_fields__}
    return {name: value for name, value in every.items() if value != getattr(Reading(), name)}


def _classes(crf: CRF) -> list[str]:
    return sorted({"CRF", *(type(kernel).__name__ for kernel in crf.kernels)})


def _crf_lines(crf: CRF) -> list[str]:
    options = {name: value for name, value in crf.options.changed().items() if name not in ("data_range", "threads")}
    options = {"iterations": crf.options.iterations, **options}
    ending = ", ".join(f"{name}={value!r}" for name, value in options.items())
    kernels = [f"        {_kernel_text(kernel)}," for kernel in crf.kernels]
    return ["crf = CRF(", "    [", *kernels, "    ],", f"    {ending},", ")"]


def _kernel_text(kernel: Kernel) -> str:
    fields = {name: value for name, value in kernel_to_table(kernel).items() if name not in ("kind", "weight")}
    if fields["normalization"] == "symmetric":
        del fields["normalization"]
    fields["weight"] = kernel_to_table(kernel)["weight"]
    return f"{type(kernel).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


def _flags(crf: CRF) -> dict[str, Any] | None:
    """The CRF as options of `refine`; None if it has more than they can say."""
    if set(crf.options.changed()) - {"iterations", "data_range", "threads"} or len(crf.kernels) != 2:
        return None
    spatial, bilateral = crf.kernels
    if not (isinstance(spatial, Spatial) and isinstance(bilateral, Bilateral)):
        return None
    numbers = {
        "sigma": spatial.sigma,
        "weight": spatial.weight,
        "sigma_xy": bilateral.sigma_xy,
        "sigma_rgb": bilateral.sigma_rgb,
        "bilateral_weight": bilateral.weight,
    }
    # refine leaves out a kernel of weight 0, and negative numbers look like options.
    if any(not isinstance(value, int | float) or value <= 0 for value in numbers.values()):
        return None
    if any(kernel.covariance is not None or kernel.normalization != "symmetric" for kernel in crf.kernels):
        return None
    return {"iterations": crf.options.iterations, **numbers}
