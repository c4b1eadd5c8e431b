"""Who may do what, by the ACLs that are metadata. Rule: a broker without an authorizer imports nothing of this."""
