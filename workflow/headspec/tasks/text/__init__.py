"""Language modelling, causal or masked: every token of a text, or those that are masked, is predicted."""
