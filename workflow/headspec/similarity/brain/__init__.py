"""Brain responses and their voxelwise prediction from vectors of the stimuli (CNM)."""
