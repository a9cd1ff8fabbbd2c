"""Labelled images of an evaluation, their splits and draws, and the data sets of the ELEVATER benchmark."""
