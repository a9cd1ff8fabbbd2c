"""What several protocols are made of: classifiers, whole networks, searches for settings, draws of labels."""
