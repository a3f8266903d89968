"""Language modelling, causal or masked, which predicts every token of a text or its masked tokens."""
