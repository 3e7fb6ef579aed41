"""Volumes with the axes of another one: programs store the same voxels in different orders and directions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from densefield.volumes.grid import Box, Grid, Pixels


def oriented_like(image: Grid, mask: Grid) -> Grid:
    """The volume with its axes in the order and directions of those of the mask, if both have affines.

    No value is interpolated: axes are exchanged and reversed. Volumes that differ otherwise stay as they are.
    """
    if image.affine is None or mask.affine is None or len(image.shape) != 3 or len(mask.shape) != 3:
        return image
    own, other = image.affine[:3, :3], mask.affine[:3, :3]
    own, other = own / np.linalg.norm(own, axis=0), other / np.linalg.norm(other, axis=0)
    turn = own.T @ other  # (image's axes, mask's axes): cosines of their angles
    source = np.abs(turn).argmax(axis=0)  # the axis x, y, z of the image for each of the mask
    signs = np.sign(turn[source, range(3)])
    if sorted(source.tolist()) != [0, 1, 2] or (source.tolist() == [0, 1, 2] and (signs > 0).all()):
        return image
    order = tuple(2 - int(source[2 - axis]) for axis in range(3))  # of the arrays' axes z, y, x
    reversed_axes = [signs[2 - axis] < 0 for axis in range(3)]
    sizes = tuple(image.shape[each] for each in order)
    affine = np.eye(4)
    for axis in range(3):
        place, backward = int(source[axis]), signs[axis] < 0
        affine[:3, axis] = signs[axis] * image.affine[:3, place]
        if backward:
            affine[:3, 3] += image.affine[:3, place] * (image.shape[2 - place] - 1)
    affine[:3, 3] += image.affine[:3, 3]

    def read(box: Box) -> Pixels:
        flipped = [
            slice(size - part.stop, size - part.start) if backward else part
            for part, size, backward in zip(box, sizes, reversed_axes, strict=True)
        ]
        own_box: list[slice] = [slice(0)] * 3
        for axis, part in zip(order, flipped, strict=True):
            own_box[axis] = part
        pixels = image.read(tuple(own_box))
        step = tuple(slice(None, None, -1) if backward else slice(None) for backward in reversed_axes)
        values = pixels.values.transpose(*order, 3)[step]
        missing = None if pixels.missing is None else pixels.missing.transpose(order)[step]
        return Pixels(values, missing)

    spacing = tuple(image.spacing[int(source[axis])] for axis in range(3))
    return replace(image, shape=sizes, spacing=spacing, read=read, affine=affine)
