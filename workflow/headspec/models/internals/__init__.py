"""What passes inside an unmodified encoder: attention, relevance, states and vectors."""
