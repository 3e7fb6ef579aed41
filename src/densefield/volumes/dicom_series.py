"""The headers of the DICOM files in a folder, by series: files that may be damaged slices are errors."""

from __future__ import annotations

import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from densefield.errors import InputError
from densefield.io.messages import cause, first_names
from densefield.lazy import optional_module

PREAMBLE, MAGIC = 128, b"DICM"
ENDINGS = ("", ".dcm", ".dicom", ".ima")  # usual ones of slices
MOST_NAMES = 5  # of files in one message


def slice_files(folder: Path) -> list[Path]:
    """The files of a folder, without hidden ones."""
    return sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith("."))


def ending(path: Path) -> str:
    """The ending of a name in lower case, "" for a number, with which names that are identifiers end.

    >>> ending(Path("IM1.DCM")), ending(Path("1.2.840.7"))
    ('.dcm', '')
    """
    return path.suffix.lower() if any(letter.isalpha() for letter in path.suffix) else ""


def is_dicom(path: Path) -> bool:
    """Whether a file has the preamble of DICOM."""
    try:
        with path.open("rb") as file:
            return file.read(PREAMBLE + len(MAGIC))[PREAMBLE:] == MAGIC
    except OSError:
        return False


def read_series(folder: Path) -> dict[str, list[Any]]:
    """The headers of the slices of each series.

    Reports, screenshots and other objects of another kind than the slices are left out, and so are files that are not
    DICOM, such as notes. A file that is named like a slice but cannot be read as one is an error, and so are several
    frames in a file.
    """
    series: dict[str, list[Any]] = defaultdict(list)
    slices: list[Path] = []
    others: list[tuple[Path, Any]] = []
    unread: list[Path] = []
    for path in slice_files(folder):
        header = _header(path)
        if header is None:
            unread.append(path)
        elif header.get("ImagePositionPatient") and "Rows" in header and not _has_frames(header):
            series[str(header.get("SeriesInstanceUID", ""))].append(header)
            slices.append(path)
        else:
            others.append((path, header))
    kinds = {_kind(header) for headers in series.values() for header in headers}
    for path, header in others:
        if _has_frames(header) and (not series or _kind(header) in kinds):
            raise InputError(
                f"{path} is multi-frame DICOM with {header.get('NumberOfFrames') or 1} frames, expected one slice in "
                "each file: convert it to NIfTI, for instance with dcm2niix."
            )
        if _kind(header) in {*kinds, None}:
            raise InputError(
                f"{path} has no ImagePositionPatient, which says where the slice is: it is damaged, or no slice of a "
                "volume. Restore it, or move it to another folder."
            )
    endings = {ending(path) for path in slices}
    damaged = [path for path in unread if ending(path) in endings]
    if damaged:
        names = first_names([path.name for path in damaged], MOST_NAMES)
        raise InputError(
            f"{folder} has files that are named like its slices, but cannot be read as DICOM ({names}): they are "
            "damaged, or something else. Restore them, or move them to another folder."
        )
    return series


def _header(path: Path) -> Any:
    """The data of a DICOM file, also without a preamble; None if it is no DICOM."""
    pydicom = optional_module("pydicom", "reading DICOM")
    whole = is_dicom(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about values that do not matter here
            header = pydicom.dcmread(path, force=not whole)
            if not whole and not ("SOPClassUID" in header and "PixelData" in header):
                return None
    except Exception as error:  # damaged files raise errors of many types
        if not whole:
            return None
        raise InputError(f"{path} cannot be read as DICOM: {cause(error)}.") from error
    if "TransferSyntaxUID" not in header.file_meta:  # it is not needed to read the header, but to read the pixels
        is_implicit, is_little = header.original_encoding
        uid = pydicom.uid
        explicit = uid.ExplicitVRLittleEndian if is_little else uid.ExplicitVRBigEndian
        header.file_meta.TransferSyntaxUID = uid.ImplicitVRLittleEndian if is_implicit else explicit
    return header


def _kind(header: Any) -> str | None:
    """The class of an object, such as CT images; None if the file ends before it is said."""
    found = header.get("SOPClassUID") or header.file_meta.get("MediaStorageSOPClassUID")
    return None if found is None else str(found)


def _has_frames(header: Any) -> bool:
    """Whether a file holds several frames, or has the structure for them."""
    return int(header.get("NumberOfFrames") or 1) > 1 or "PerFrameFunctionalGroupsSequence" in header
