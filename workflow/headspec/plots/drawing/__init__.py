"""What all figures share: style, saving, points of task pairs, and names placed beside points."""
