"""Translation, or any other task in which an encoder-decoder writes texts."""
