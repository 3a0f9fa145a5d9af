"""Pictures; the only part that draws."""
