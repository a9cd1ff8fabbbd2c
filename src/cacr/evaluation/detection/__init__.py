"""Finding things in images: detectors on an encoder, how they are trained, and how good they are."""
