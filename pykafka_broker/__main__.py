"""`python -m pykafka_broker` is the command `pykafka-broker`."""

import sys

from pykafka_broker.cli import main

if __name__ == "__main__":
    sys.exit(main())
