"""The traffic between clients and the broker: seen, remembered, and disturbed on purpose.

Rule: everything here knows frames and messages of the protocol, and no broker: the router of a broker
(`control/observed_router.py`) and the proxy in front of another one use the same parts.

    exchange.py      one request and its answer, their frames as messages
    request_log.py   the last exchanges, and sums over them
    mentions.py      which topics, partitions, groups and transactional ids a message is about
    readable.py      a message as JSON, an exchange as a line, names as people write them
    capture.py       exchanges from captured traffic
    faults.py        faults: whom they meet, what they do, in which order; faults drawn at random
    answers.py       requests and answers as a fault changes them
"""
