"""What differs from plain training after the branch: a module for each way to restrict it."""
