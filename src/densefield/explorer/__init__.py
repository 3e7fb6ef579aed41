"""The explorer: a page on this computer that shows dense CRF inference while its parameters change.

A request passes through `security` (token and origin) → `app` (routes) → `lanes` (the newest request wins) →
`settings` (checked values, `presets`) → `inputs` (mask, scribbles or scores of a picture of the `gallery`) →
`inference`. `details` and `listening` compute more about a result, `messages` encode it for the page, in words
of `wording`, and `snippets` and `saving` export it. The page is in `static`.
"""
