"""What is judged on: labelled images, their splits and draws, and the known transfer sets."""
