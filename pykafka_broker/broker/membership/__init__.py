"""Join the cluster and leave it: registration, heartbeats, controlled shutdown."""
