"""Shared parts of protocols: classifiers, whole networks, searches for settings, draws of labels."""
