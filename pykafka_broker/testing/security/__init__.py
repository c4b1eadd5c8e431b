"""TLS, users and ACLs of a broker for tests, from a few words.

Rule: everything is made for the one broker and goes with it: the authority that signs its certificates, passwords that
nobody has chosen, users and ACLs in the first records of its metadata, so that they are there again after a reset.
Passwords are in files that only their owner reads and in what a client is handed, nowhere else.
"""
