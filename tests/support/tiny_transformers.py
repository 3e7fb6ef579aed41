"""Segmentation models of transformers with a few thousand random weights, made from their configurations."""

from __future__ import annotations

from typing import Any

import torch

CLASSES = 4
SIZE = (64, 96)  # rows, columns of the images, which every model takes


def segformer() -> Any:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        num_labels=CLASSES,
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 8, 16, 16],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
    )
    return SegformerForSemanticSegmentation(config)


def upernet() -> Any:
    from transformers import ConvNextConfig, UperNetConfig, UperNetForSemanticSegmentation

    body = ConvNextConfig(
        hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]
    )
    config = UperNetConfig(
        backbone_config=body,
        hidden_size=16,
        num_labels=CLASSES,
        use_auxiliary_head=False,
        pool_scales=[1, 2],
    )
    return UperNetForSemanticSegmentation(config)


def _swin() -> Any:
    from transformers import SwinConfig

    return SwinConfig(
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


def maskformer() -> Any:
    from transformers import DetrConfig, MaskFormerConfig, MaskFormerForInstanceSegmentation

    decoder = DetrConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        decoder_ffn_dim=16,
        encoder_ffn_dim=16,
        num_queries=6,
    )
    config = MaskFormerConfig(
        backbone_config=_swin(), decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32, num_labels=CLASSES
    )
    return MaskFormerForInstanceSegmentation(config)


def mask2former() -> Any:
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation

    config = Mask2FormerConfig(
        backbone_config=_swin(),
        num_labels=CLASSES,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=16,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=2,
        dim_feedforward=16,
        num_queries=6,
    )
    return Mask2FormerForUniversalSegmentation(config)


MODELS = {"segformer": segformer, "upernet": upernet, "maskformer": maskformer, "mask2former": mask2former}


def tiny_model(name: str, seed: int = 52711) -> Any:
    """A model in evaluation mode, with the same weights in every call."""
    torch.manual_seed(seed)
    return MODELS[name]().eval()
