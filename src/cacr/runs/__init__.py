"""Run folders: their files, and what is in them."""
