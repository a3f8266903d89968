"""Effects of heads that are closed together."""
