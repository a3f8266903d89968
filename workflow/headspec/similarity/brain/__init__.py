"""Brain responses and their prediction, voxel by voxel, from vectors of the stimuli (CNM)."""
