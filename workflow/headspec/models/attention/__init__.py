"""Where models of transformers compute attention, found and proved by small passes."""
