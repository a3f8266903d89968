"""Language models that are prompted: heads for answers, a common beginning read once, several GPUs."""
