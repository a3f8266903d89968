"""Which tasks should be trained together: gains of pairs, their prediction, and partitions of tasks."""
