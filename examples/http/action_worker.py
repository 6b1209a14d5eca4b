"""A worker of an action that workflows call: runs its handler, and reports outputs and failures."""

import json
import os
import urllib.error
import urllib.request

BASE = os.environ.get("FLOE_URL", "http://127.0.0.1:9002") + "/api/v1"
WORKER = "/workers/py-worker"


def call(method, path, body=None):
    """Sends a request and returns the JSON of the response."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(BASE + path, data, method=method), timeout=70) as response:
            return json.load(response)
    except urllib.error.HTTPError as e:
        raise RuntimeError(json.load(e)["error"]) from None


def charge(run):
    """The handler: the card of order 2 is refused, and the bank is unreachable at first for order 3."""
    order = run["input"]["order"]
    if order == 3 and run["attempt"] == 1:
        raise ConnectionError("bank unreachable")
    return ("refused", None) if order == 2 else ("success", {"receipt": order * 100})


call("PUT", "/actions/py-charge", {"timeout_ms": 30000, "max_attempts": 3, "backoff_min_ms": 0, "backoff_max_ms": 0})
call("POST", "/workflow/definitions", {
    "name": "py-order",
    "start": {
        "run": "@actions/py-charge",
        "transitions": {"success": "flo.Completed", "refused": "flo.Cancelled", "failure": "flo.Failed"},
    },
})
call("PUT", WORKER, {"actions": ["py-charge"], "concurrency": 1})
started = [call("POST", "/workflow/runs?workflow=py-order", {"order": order})["run_id"] for order in (1, 2, 3)]

ended = 0
while ended < 3:
    runs = call("POST", f"{WORKER}/await", {"actions": ["py-charge"], "max": 1, "wait_ms": 5000})["runs"]
    call("POST", f"{WORKER}/heartbeat", {"load": len(runs)})
    for run in runs:
        path = f"{WORKER}/runs/{run['run_id']}"
        try:
            outcome, output = charge(run)
        except ConnectionError as e:
            call("POST", f"{path}/fail", {"error": str(e), "code": "network", "retry": True, "delivery": run["delivery"]})
            print(f"order {run['input']['order']}, attempt {run['attempt']}: {e}")
            continue
        call("POST", f"{path}/complete", {"output": output, "outcome": outcome, "delivery": run["delivery"]})
        print(f"order {run['input']['order']}, attempt {run['attempt']}: {outcome} {json.dumps(output)}")
        ended += 1

for order, id in enumerate(started, 1):
    print(f"workflow of order {order}: {call('GET', f'/workflow/runs/{id}?wait_ms=5000')['status']}")
call("POST", f"{WORKER}/drain")
call("DELETE", WORKER)
