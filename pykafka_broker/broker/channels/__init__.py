"""Reach the other nodes: one channel to the controller, one to each broker, requests gathered into one."""
