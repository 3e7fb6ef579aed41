"""Images and masks in files: reading, pairing, writing. Needs Pillow."""
