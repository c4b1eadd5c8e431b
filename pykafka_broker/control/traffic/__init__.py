"""What clients and the broker say to each other: seen, remembered, and disturbed on purpose.

Rule: everything here knows frames and messages of the protocol, and no broker: the router of a broker
(`control/observed_router.py`) and the proxy in front of another one stand on the same parts.

    exchange.py      one request and its answer
    request_log.py   the last of them
    mentions.py      which topics, partitions, groups and transactional ids a message is about
    readable.py      a message as JSON, an exchange as a line
    capture.py       exchanges from captured traffic, whose packets packets.py reads
    rule.py          one fault: whom it meets and what it does
    faults.py        all of them, in their order
    chaos.py         faults drawn at random, the same ones from the same seed
    answers.py       answers that say what a fault wants them to say
"""
