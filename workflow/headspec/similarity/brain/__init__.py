"""Brain responses: reading them, and predicting them voxel by voxel from vectors of the stimuli (CNM)."""
