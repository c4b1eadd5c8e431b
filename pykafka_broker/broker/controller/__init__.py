"""Run the controller where this node has one."""
