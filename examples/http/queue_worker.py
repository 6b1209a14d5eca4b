"""A queue worker: leases messages, extends their leases while it works, and retries what failed."""

import json
import os
import threading
import urllib.error
import urllib.request

BASE = os.environ.get("FLOE_URL", "http://127.0.0.1:9002") + "/api/v1"


def call(method, path, body=None, headers={}):
    """Sends a request and returns the JSON of the response."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=70) as response:
            return json.load(response)
    except urllib.error.HTTPError as e:
        raise RuntimeError(json.load(e)["error"]) from None


def work(message):
    """Sends a mail; the first attempt to reach Bob fails."""
    if message["payload"] == "mail to bob" and message["attempt"] == 1:
        raise ValueError("mailbox busy")


def handle(message):
    done = threading.Event()

    def extend():  # for as long as the work takes
        while not done.wait(10):
            call("POST", "/queues/py-mail/extend", {"receipt": message["receipt"], "lease_ms": 30000})

    threading.Thread(target=extend, daemon=True).start()
    try:
        work(message)
    except Exception as e:
        call("POST", "/queues/py-mail/nack", {"receipt": message["receipt"], "reason": str(e), "delay_ms": 0})
        print(f"{message['payload']}, attempt {message['attempt']}: {e}")
    else:
        call("POST", "/queues/py-mail/ack", {"receipts": [message["receipt"]]})
        print(f"{message['payload']}, attempt {message['attempt']}: sent")
    finally:
        done.set()


for name in ("ann", "bob", "cid"):
    for _ in range(2):  # the second request changes nothing
        call("POST", "/queues/py-mail", f"mail to {name}".encode(), {"Idempotency-Key": name})

handled = 0
while handled < 4:
    for message in call("POST", "/queues/py-mail/dequeue", {"max": 1, "lease_ms": 30000, "wait_ms": 5000})["messages"]:
        handle(message)
        handled += 1

queue = call("GET", "/queues/py-mail")
print(f"{queue['enqueued']} enqueued, {queue['pending']} pending, {queue['dlq_count']} dead")
