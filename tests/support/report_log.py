"""The log of a run of stage 2, for pages."""

from __future__ import annotations

LOG = """\
step,stage,loss,iou,train_iou,images_per_second,spatial.sigma.0,spatial.sigma.1,spatial.weight,bilateral.sigma.2
1,2,0.9,,,10,3,3,1,10
2,2,0.7,0.4,0.45,10,3.1,3.2,0.9,9
3,2,0.6,,,10,3.2,3.3,0.8,8.5
4,2,0.5,0.6,0.65,10,3.3,3.4,0.7,8
"""
