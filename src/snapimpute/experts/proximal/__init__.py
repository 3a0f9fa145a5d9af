"""The proximal expert: a matrix of low rank whose missing cells are drawn to the alphabet."""
