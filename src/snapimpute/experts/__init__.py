"""Models of a table behind one protocol, and the blend of them."""
