"""How a peer's program talks to `keisei.bench.peer`: JSON lines over its standard input and output.

It says once who it is, `{"peer": …, "version": …, "measures": […]}`; then, for each request
`{"measure": NAME, "seconds": S}`, it measures for about so long and answers `{"work": …, "seconds": …}` in processor
seconds. Between requests it sleeps, so that whoever is measured has the core alone.
"""

import json
import sys
from collections.abc import Callable, Mapping

Measure = Callable[[float], tuple[float, float]]  # seconds to spend -> (work done, processor seconds)


def serve(peer: str, version: str, measures: Mapping[str, Measure]) -> None:
    """Answer requests until the other side closes the pipe."""
    _say({"peer": peer, "version": version, "measures": sorted(measures)})
    for line in sys.stdin:
        request = json.loads(line)
        work, seconds = measures[request["measure"]](request["seconds"])
        _say({"work": work, "seconds": seconds})


def _say(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)
