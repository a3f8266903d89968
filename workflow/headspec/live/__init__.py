"""What a person sees while the workflow runs."""
