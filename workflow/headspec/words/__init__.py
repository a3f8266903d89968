"""Types of tasks on words: what is annotated, how it is counted, and what a blind guess reaches."""
