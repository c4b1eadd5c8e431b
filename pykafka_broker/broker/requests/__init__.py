"""Take a request from its frame to its handler, and the answer back: headers, routes, quotas, forwarding."""
