"""Commands of `headspec` that use the results of a study."""
