"""Figures: one module each, whose function `draw` returns a matplotlib Figure.

`draw` takes inputs and params of its rule by name. Parameters named as a table are its rows for the
wildcards of the figure (`scores`: table 'iat'), or {seed: table of a run}. `tasks` are those of the mixture
and `mixtures` {name: its tasks}, both in the order in which they are shown. `metrics` is {task: its main
metric}, `fraction` the main fraction of heads to prune. `labels` and `places` have the name of a measure,
ranking or method in the figure, in order, and what gives its look. `attention` has the layers by kind of
attention, of a model with several.
"""
