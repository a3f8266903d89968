"""What heads do: attention maps, and behaviours beside controls."""
