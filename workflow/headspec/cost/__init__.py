"""Planning the cost of a study, and benchmarking headspec."""
