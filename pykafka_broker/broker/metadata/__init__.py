"""Learn the metadata, publish it to the broker, and tell the controller what only this broker knows."""
