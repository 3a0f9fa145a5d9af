"""Pictures: the numbers of every figure, and matplotlib drawings of them."""
