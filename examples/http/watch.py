"""A watch of keys: loses its connection, and resumes after the last change that it has seen."""

import json
import os
import urllib.request

BASE = os.environ.get("FLOE_URL", "http://127.0.0.1:9002") + "/api/v1/kv/namespaces/default"


def write(method, key, body=None):
    data = None if body is None else json.dumps(body).encode()
    urllib.request.urlopen(urllib.request.Request(f"{BASE}/keys/{key}", data, method=method)).close()


def watch(prefix, position=None):
    """Yields the position and the data of each event, from the one after the given position."""
    headers = {"Last-Event-ID": position} if position else {}
    with urllib.request.urlopen(urllib.request.Request(f"{BASE}/watch?prefix={prefix}", headers=headers)) as response:
        event = {}
        for line in response:
            field, _, value = line.decode().rstrip("\n").partition(":")
            if field:  # a line that begins with a colon only keeps the connection open
                event[field] = value.removeprefix(" ")
            elif "data" in event:  # an empty line ends an event
                if event.get("event") == "error":
                    raise RuntimeError(json.loads(event["data"])["error"])
                position = event.get("id", position)
                yield position, json.loads(event["data"])
                event = {}


write("PUT", "py-price.cup", {"value": "5"})
write("PUT", "py-price.lamp", {"value": "40"})
for position, change in watch("py-price."):
    print(f"{change['key']}: {change['value']}")
    if position:  # the last of the keys that exist
        break  # which closes the connection

write("PUT", "py-price.lamp", {"value": "45"})
write("DELETE", "py-price.cup")
for position, change in watch("py-price.", position):
    print(f"missed meanwhile: {change['type']} {change['key']}")
    if change["type"] == "delete":
        break
