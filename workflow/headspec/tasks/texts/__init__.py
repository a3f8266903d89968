"""What tasks on texts share."""
