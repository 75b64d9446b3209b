"""Lists the intact checkpoints of a node: `python -m railbed.train.state.verify FOLDER`, run there without torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from railbed.train.state.checkpoints import survey


def main() -> None:
    """Print the intact checkpoints, and a sentence for each of the others."""
    result = survey(Path(sys.argv[1]))
    good = [{"step": state.step, "hash": state.hash} for state in result.good]
    sys.stdout.write(json.dumps({"good": good, "damaged": result.damaged}) + "\n")


if __name__ == "__main__":
    main()
