"""The objects of a run: data, networks, the job of the loop, and its checkpoints."""
