"""The docs: reference pages made from the code, and what the site is made of."""
