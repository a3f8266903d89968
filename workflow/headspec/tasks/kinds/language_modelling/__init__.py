"""Language modelling, causal or masked: prediction of every token of a text, or of masked tokens."""
