"""Where models of transformers compute attention, found and verified by small passes."""
