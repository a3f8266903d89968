"""What `findings.md` shows of the studies that are kept, a module for a subject."""
