"""What tasks on words share."""
