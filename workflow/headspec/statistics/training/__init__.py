"""Methods of training compared: IAT and transfer."""
