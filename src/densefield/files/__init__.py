"""Images and masks in files: reading, refining, writing. Needs Pillow."""
