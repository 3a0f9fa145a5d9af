"""Tables of symbols: alphabets, observed cells, columns, and tables as users have them."""
