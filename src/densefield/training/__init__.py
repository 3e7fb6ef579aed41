"""Training of a network alone (stage 1) and of network and CRF together (stage 2). Needs the extra `train`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.training.entry import TrainedRun as TrainedRun
    from densefield.training.entry import train as train
    from densefield.training.entry import train_config as train_config
    from densefield.training.log import read_log as read_log
    from densefield.training.loop import Diverged as Diverged
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "entry": ["TrainedRun", "train", "train_config"],
            "log": ["read_log"],
            "loop": ["Diverged"],
        },
    )
