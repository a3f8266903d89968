"""Fine-tuning, important attention-head training (IAT) with its controls, and few-shot transfer."""
