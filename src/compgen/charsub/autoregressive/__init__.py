"""Character substitution as `x SEP y EOS`, with next-token loss and free-running generation."""
