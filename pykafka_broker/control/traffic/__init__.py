"""The traffic between clients and the broker: seen, remembered, and disturbed on purpose.

Rule: the modules know frames and messages of the protocol, and no broker. The router of a broker
(`control/observed_router.py`) and the proxy in front of another broker (`cli/proxy.py`) use the same parts.

    exchange.py      a request with the answer; frames as messages
    request_log.py   the last exchanges, and sums over them
    mentions.py      the topics, partitions, groups and transactional ids of a message
    readable.py      a message as JSON, an exchange as a line, names as people write them
    faults.py        faults: the requests to meet, the effects, the order; faults drawn at random
    answers.py       requests and answers as changed by a fault
    recorder.py      whole requests and answers, to be played again
    advice.py        what clients should change, from what they have asked
"""
