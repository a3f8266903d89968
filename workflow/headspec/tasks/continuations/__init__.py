"""What tasks on pairs of continuations share."""
