"""Learners: from what was lived to better networks."""
