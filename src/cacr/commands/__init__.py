"""The commands of the command line; each one reads its arguments, calls a function of the package and prints."""
