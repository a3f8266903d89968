"""Planning the cost of a study."""
