"""One page that shows what came out."""
