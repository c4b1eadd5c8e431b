"""The history of a broker: what clients were told, and whether that is how it should be.

Rule: while clients are served, the requests that matter and their answers are kept as bytes in a file; they are read
when somebody asks. A check knows facts and outlines of logs and nothing else, so the facts of several brokers are
checked together, in the broker or in the process of a test.

    entries.py       the file of the history: requests and answers as bytes
    noting.py        the router that writes the entries
    facts.py         an entry as facts: records were produced, fetched, committed
    outlines.py      the logs as they are when somebody asks
    findings.py      an anomaly in plain lines, and the evidence for it
    checks.py        anomalies: facts that contradict each other or the logs, and cycles of transactions
    groups.py        what groups of consumers fetched and committed, and share groups were delivered and acknowledged
    application.py   input records, the output records that belong to them, and the way of both
"""
