"""Translation, or any other task in which the model writes texts."""
