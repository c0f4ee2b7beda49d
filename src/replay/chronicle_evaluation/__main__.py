"""``python -m replay.chronicle_evaluation`` prints the evaluation."""

import sys

from replay.chronicle_evaluation.report import main

if __name__ == "__main__":
    sys.exit(main())
