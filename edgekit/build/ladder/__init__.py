"""The ladder: a network cut into rungs, and margins that say when an answer is sure enough."""
