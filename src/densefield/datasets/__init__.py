"""Images with labels: PASCAL VOC 2012, SBD and folders, transforms, batches. Reading needs Pillow, batches torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.datasets.adapter import as_dataset as as_dataset
    from densefield.datasets.check import DatasetReport as DatasetReport
    from densefield.datasets.check import check_data as check_data
    from densefield.datasets.download import Downloaded as Downloaded
    from densefield.datasets.download import download_voc2012 as download_voc2012
    from densefield.datasets.folder import FolderDataset as FolderDataset
    from densefield.datasets.folder import open_dataset as open_dataset
    from densefield.datasets.foreground import ForegroundDataset as ForegroundDataset
    from densefield.datasets.loading import Batch as Batch
    from densefield.datasets.loading import evaluation_batches as evaluation_batches
    from densefield.datasets.loading import training_batches as training_batches
    from densefield.datasets.sample import Dataset as Dataset
    from densefield.datasets.sample import Sample as Sample
    from densefield.datasets.transforms import Augmentation as Augmentation
    from densefield.datasets.transforms import ShrunkDataset as ShrunkDataset
    from densefield.datasets.transforms import augment as augment
    from densefield.datasets.voc import VOC2012 as VOC2012
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "adapter": ["as_dataset"],
            "check": ["DatasetReport", "check_data"],
            "download": ["Downloaded", "download_voc2012"],
            "folder": ["FolderDataset", "open_dataset"],
            "foreground": ["ForegroundDataset"],
            "loading": ["Batch", "evaluation_batches", "training_batches"],
            "sample": ["Dataset", "Sample"],
            "transforms": ["Augmentation", "ShrunkDataset", "augment"],
            "voc": ["VOC2012"],
        },
    )
