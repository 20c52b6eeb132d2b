"""Deep context: vectors of phrases by their letters and phones, and what is found with them."""
