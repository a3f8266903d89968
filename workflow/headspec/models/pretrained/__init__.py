"""Files of pretrained models: location, properties and checks."""
