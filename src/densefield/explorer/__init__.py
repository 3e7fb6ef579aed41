"""The explorer: a page on this computer that shows dense CRF inference while its parameters change.

A request passes through `security` (who may ask) → `app` (routes) → `lanes` (the newest request wins) → `settings`
(checked values) → `inputs` (mask, scribbles or scores) → `inference`. `details`, `listening` and `exporting` answer
questions about a result. The page is in `static`.
"""
