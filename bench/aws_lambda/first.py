"""Run by the function's Python: CPU of a fresh process to import `MODULE`, and for the first event.

`first.py MODULE [FOLDER EVENT]` prints the CPU seconds of either as JSON. It imports nothing else before,
which would make the measured import cheaper.
"""

import sys
import time

module, *rest = sys.argv[1:]
if rest:
    sys.path.insert(0, rest[0])
started = time.process_time()
loaded = __import__(module)
ready = time.process_time() - started

import json  # noqa: E402
import os  # noqa: E402

answered, reply = 0.0, None
if rest:
    from context import Context

    out, log = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    with open(rest[1], encoding="utf-8") as file:
        event = json.load(file)
    started = time.process_time()
    reply = loaded.handler(event, Context())
    answered = time.process_time() - started
    os.dup2(out, 1)
print(json.dumps({"ready": ready, "first": answered, "reply": reply}))
