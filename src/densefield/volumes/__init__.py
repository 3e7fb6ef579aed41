"""Volumes and rasters in files: NIfTI, DICOM, GeoTIFF, TIFF and Zarr. Each format needs its own library.

A pair of files is opened as `grid`s by `formats` and refined by `refining`: `planning` reads the mask once and chooses
a `label_plan` or a `score_plan` from a `sample`, which then refines the `tiles` one by one.
"""

from densefield.volumes.arrays import Volume as Volume
from densefield.volumes.arrays import read_volume as read_volume
from densefield.volumes.arrays import write_volume as write_volume
from densefield.volumes.refining import RefinedFile as RefinedFile
from densefield.volumes.refining import refine_file as refine_file
