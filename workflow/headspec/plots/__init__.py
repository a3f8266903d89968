"""Figures, each drawn by a function that returns a matplotlib Figure.

The function takes inputs and params of its rule by name. A parameter named after a table has its rows for the
wildcards of the figure (`scores`: table 'iat'), or is {seed: table of a run}. `tasks` and `mixtures` {name:
its tasks} are in the order shown. `metrics` is {task: its main metric}, `fraction` the main fraction of heads
to prune. `labels` and `places` give the names and styles of measures, rankings or methods, in order.
`attention` has the layers by kind of attention, for a model with several.
"""
