"""Run by the function's Python: keeps `FOLDER/MODULE.handler` warm and measures batches of events.

`inside.py FOLDER MODULE`; each line on stdin is a JSON list of events, each of them as text. Each line on
stdout has the CPU seconds of the process and of the children that it waited for meanwhile, and the replies,
as text. Output of the handler goes to stderr.
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
    texts, replies = json.loads(line), []
    before, spent = children(), 0.0
    for text in texts:
        # One event at a time, as in a real instance: a handler that collects garbage finds no other events.
        event, context = json.loads(text), Context()
        started = time.process_time()
        reply = handler(event, context)
        spent += time.process_time() - started
        replies.append(json.dumps(reply))
        del event, context, reply
    figures = {"own": spent, "children": children() - before, "replies": replies}
    print(json.dumps(figures), file=out, flush=True)
