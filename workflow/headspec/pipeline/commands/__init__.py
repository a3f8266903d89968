"""What the commands of `headspec` do with the results of a study."""
