"""
A point cloud
=============

Twelve thousand coloured points in space: a floor, a ball, a box and a cone, synthetic.
The labels are noisy, as from a classifier that sees every point alone. Points have no
grid: a `Custom` kernel compares any features, here position and colour.
"""

import matplotlib.pyplot as plt
import numpy as np

from densefield import CRF, Custom

rng = np.random.default_rng(606)
u, v, w = rng.uniform(0, 1, (3, 3000))
angle = 2 * np.pi * u
ball_z = 2 * v - 1
radius = np.sqrt(1 - ball_z**2)
ball = np.stack([radius * np.cos(angle), radius * np.sin(angle), ball_z + 1], 1)
box = np.stack([u, v, w], 1) * 1.6
box[np.arange(3000), rng.integers(3, size=3000)] = rng.choice([0, 1.6], 3000)
cone = np.stack([(1 - w) * np.cos(angle), (1 - w) * np.sin(angle), 2 * w], 1)
floor = np.stack([8 * u - 4, 8 * v - 4, 0 * w], 1)
points = np.concatenate([floor, ball, box, cone])
places = np.array([[0, 0, 0], [-2, -1, 0], [0.4, -2.6, 0], [1, 1.6, 0]])
points += places.repeat(3000, axis=0)
points += rng.normal(0, 0.02, points.shape)
truth = np.arange(4).repeat(3000)
tints = np.array([[120, 120, 110], [190, 70, 60], [70, 110, 180], [200, 170, 60]])
colours = tints[truth] + rng.normal(0, 30, (12000, 3))

# %%
# Scores of the classifier: right for about two points of three.
scores = rng.normal(0, 1, (4, 12000))
scores[truth, np.arange(12000)] += 1.6
rough = scores.argmax(axis=0)

# %%
# One kernel of positions, 0.2 wide, and one of positions and colours.
near = Custom("nearness", 0.2, weight=2)
alike = Custom("alike", 1.0, weight=4)
features = {
    "nearness": points,
    "alike": np.concatenate([points / 0.6, colours / 40], axis=1),
}
refined = CRF([near, alike], iterations=10).solve(scores, features=features).labels

right, now = (100 * np.mean(labels == truth) for labels in (rough, refined))
print(f"correct points: {right:.1f} % by the classifier, {now:.1f} % with the CRF")

paints = np.array(["#9a9a8f", "#c8443a", "#3c78c0", "#d8a520"])
figure = plt.figure(figsize=(12, 3), layout="constrained")
axes = figure.subplots(1, 3, subplot_kw={"projection": "3d"})
titles = ["truth", f"classifier, {right:.1f} % correct", f"with the CRF, {now:.1f} %"]
for ax, labels, title in zip(axes, (truth, rough, refined), titles, strict=True):
    ax.scatter(*points.T, c=paints[labels], s=1.5)
    ax.set(xlim=(-4, 4), ylim=(-4, 4), zlim=(0, 2.8))
    ax.set_box_aspect((8, 8, 2.8), zoom=1.35)
    ax.set_title(title)
    ax.set_axis_off()
