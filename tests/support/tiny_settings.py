"""Configuration of a small run: crops of 32 pixels, a network with few channels."""

TINY = """
[data]
kind = "scenes"
crop = [32, 40]
scales = [0.5, 1.0]

[data.scenes]
images = 10
val_images = 3
object_classes = 3
seed = 471

[network]
name = "small_network"
num_classes = 4
pretrained = false
options = { width = 32, norm = "group" }

[optimizer]
lr_top = 0.02
lr_rest = 0.005

[training]
steps = 6
batch = 4
validate_every = 3
checkpoint_every = 2
seed = 3391
workers = 0

[stage2.training]
steps = 4

[stage2.optimizer]
lr_crf = 0.5
"""
