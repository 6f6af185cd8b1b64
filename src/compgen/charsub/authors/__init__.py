"""Character substitution as the authors' notebook does it: the output at every position is the input's, substituted."""
