"""Collecting experience: the contract, the one acting loop, and who plays the blocks."""
