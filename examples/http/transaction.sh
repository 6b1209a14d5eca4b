#!/bin/sh
# One transaction acknowledges a message, stores a result and emits an event; a second one finds
# that the result exists, and changes nothing.
set -eu
api=${FLOE_URL:-http://127.0.0.1:9002}/api/v1

post() { curl -sS "$api/$1" -d "$2"; }
field() { sed -n "s/.*\"$1\":\"\\([^\"]*\\)\".*/\\1/p"; }

post queues/sh-mail 'Dear Ann' >/dev/null
receipt=$(post queues/sh-mail/dequeue '{"wait_ms":5000}' | field receipt)

commit() {
	post txn '{
		"if": [{"op": "kv.absent", "key": "sh-sent"}],
		"do": [
			{"op": "queue.ack", "name": "sh-mail", "receipts": ["'"$receipt"'"]},
			{"op": "kv.put", "key": "sh-sent", "value": "yes"},
			{"op": "stream.append", "name": "sh-events", "payload": "sent"}
		]}'
}

case $(commit) in *'"ok":true'*) echo "committed" ;; esac
case $(commit) in *'"part":"if"'*) echo "refused by a condition" ;; esac
post kv/namespaces/default/get '{"keys":["sh-sent"]}' | field value
curl -sS "$api/streams/sh-events/records" | field payload
