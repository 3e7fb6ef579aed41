"""Files that are not trusted, and files written completely or not at all."""
