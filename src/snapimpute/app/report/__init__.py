"""Pictures of studies, and the page about a completion."""
