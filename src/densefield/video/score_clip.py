"""A clip with probabilities or logits: what is estimated once for all its windows, and the refinement of one window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from densefield.refinement.colour_model import colour_model
from densefield.refinement.mask_edges import Float32
from densefield.video.options import SAMPLE, VideoOptions, of_sample
from densefield.video.score_frames import ScoreFrame, ScoreReader, largest_leads, possible, refined_scores


class ScoreClip:
    """A clip with probabilities or logits.

    All scores are read once, for the labels that are possible. The colours of the labels are estimated on a sample of
    frames, so that they are the same in all windows.

    Parameters
    ----------
    frames, masks
        The frames and their scores, which are read by index.
    options
        How they are refined.
    """

    def __init__(self, frames: Sequence[Any], masks: Sequence[Any], options: VideoOptions) -> None:
        self._frames, self._masks, self._options = frames, masks, options
        self._reader, threads = ScoreReader(options), options.num_threads
        total = len(masks)
        leads = [largest_leads(self._reader.scores(masks[index], index), threads) for index in range(total)]
        self.values: npt.NDArray[np.intp] = possible(np.max(leads, axis=0))
        spread = np.unique(np.linspace(0, total - 1, min(total, SAMPLE)).round().astype(int)).tolist()
        sample = [self.prepare(index) for index in spread]
        channels, labels = of_sample([each.channels for each in sample], [each.labels for each in sample])
        self._colours = colour_model(channels, labels, len(self.values), threads)

    @property
    def num_classes(self) -> int:
        """The number of classes of the clip, with those that do not occur."""
        return self._reader.num_classes

    def prepare(self, index: int) -> ScoreFrame:
        """Reads a frame and its scores."""
        frame = self._reader.frame(self._frames[index], self._masks[index], index)
        return ScoreFrame(frame.channels, frame.scores[self.values])

    def window(self, frames: Sequence[ScoreFrame], kept: slice) -> Iterator[Float32]:
        """Refines a window; yields the marginals (K, H, W) of the frames that are kept."""
        q = refined_scores(frames, self._colours, self._options)
        yield from (q[:, number] for number in range(len(frames))[kept])
