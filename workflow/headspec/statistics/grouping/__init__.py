"""Which tasks should learn together: gains of pairs, their prediction, and partitions of tasks."""
