"""Commands for files alone: what they hold, a study of them, and the heads of one model."""
