"""What heads do: attention maps, and behaviours compared with controls."""
