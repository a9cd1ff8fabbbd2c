"""The commands by family; each one reads its arguments, calls a function of the package and prints."""
