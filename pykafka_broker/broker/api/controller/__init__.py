"""Handlers of what is asked of a controller on its own listeners: one file for requests that belong together."""
