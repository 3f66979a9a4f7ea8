"""A worker that runs nothing: the seed of a trial says how it ends."""

import json
import sys
import time

print("ready", flush=True)
for line in sys.stdin:
    seed = json.loads(line)["seed"]
    if seed == 1:
        print("last words", file=sys.stderr)
        sys.exit(9)
    if seed == 2:
        time.sleep(600)
    print(json.dumps({"verdict": "ok", "features": ["ran"], "worst": 0.5}), flush=True)
