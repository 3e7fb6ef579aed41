"""densefield inside other libraries: each module imports its library when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from densefield.lazy import lazy_exports

if TYPE_CHECKING:
    from densefield.integrations.label_maps import refine_label_maps as refine_label_maps
    from densefield.integrations.label_studio import label_studio_prediction as label_studio_prediction
    from densefield.integrations.label_studio_export import refine_label_studio_export as refine_label_studio_export
    from densefield.integrations.lightning import CRFLogger as CRFLogger
    from densefield.integrations.lightning import SegmentationModule as SegmentationModule
    from densefield.integrations.monai import CRFRefine as CRFRefine
    from densefield.integrations.monai import CRFRefined as CRFRefined
    from densefield.integrations.monai import MonaiCRF as MonaiCRF
    from densefield.integrations.napari import refinement_widget as refinement_widget
    from densefield.integrations.pixel_values import PixelValues as PixelValues
    from densefield.integrations.query_masks import semantic_scores as semantic_scores
    from densefield.integrations.transformers import DenseCRFForSemanticSegmentation as DenseCRFForSemanticSegmentation
    from densefield.integrations.transformers_config import DenseCRFConfig as DenseCRFConfig
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "label_maps": ["refine_label_maps"],
            "label_studio": ["label_studio_prediction"],
            "label_studio_export": ["refine_label_studio_export"],
            "monai": ["CRFRefine", "CRFRefined", "MonaiCRF"],
            "napari": ["refinement_widget"],
            "lightning": ["CRFLogger", "SegmentationModule"],
            "pixel_values": ["PixelValues"],
            "query_masks": ["semantic_scores"],
            "transformers": ["DenseCRFForSemanticSegmentation"],
            "transformers_config": ["DenseCRFConfig"],
        },
    )
