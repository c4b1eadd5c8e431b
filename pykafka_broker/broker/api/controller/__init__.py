"""Handlers of requests on a controller's own listeners: one file for requests that belong together."""
