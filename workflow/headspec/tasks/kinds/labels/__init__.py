"""Several labels per text, such as the emotions of a comment."""
