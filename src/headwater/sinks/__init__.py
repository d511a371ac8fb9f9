"""Where changes go: one file (or folder) per target."""
