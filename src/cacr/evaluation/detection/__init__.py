"""Object detection: detectors on an encoder, their training and their evaluation."""
