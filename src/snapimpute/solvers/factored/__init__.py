"""Methods that move the two factors of a matrix of fixed rank."""
