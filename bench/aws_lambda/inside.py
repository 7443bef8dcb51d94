"""Run by the function's Python: keeps `FOLDER/MODULE.handler` warm, and says what batches of events cost it.

`inside.py FOLDER MODULE`; each line on stdin is a JSON list of events, each line on stdout the CPU seconds of
the process and of the children it waited for meanwhile, and the replies. What the handler itself prints goes
to stderr.
"""

import json
import os
import resource
import sys
import time

from context import Context


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


folder, module = sys.argv[1:]
sys.path.insert(0, folder)
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
handler = __import__(module).handler
for line in sys.stdin:
    events = json.loads(line)
    before, started = children(), time.process_time()
    replies = [handler(event, Context()) for event in events]
    spent = time.process_time() - started
    figures = {"own": spent, "children": children() - before, "replies": replies}
    print(json.dumps(figures), file=out, flush=True)
