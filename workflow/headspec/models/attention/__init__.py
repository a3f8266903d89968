"""Where models of transformers compute attention, found and verified by small forward passes."""
