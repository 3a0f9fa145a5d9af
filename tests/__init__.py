"""A package, so that every test module finds `tests.helpers`."""
