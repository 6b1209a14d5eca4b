package dashboard

const workPath = "/api/v1/queues/jobs"

// leased is a message in the response to dequeue.
func leased(receipt, payload string, seq, attempt int) fields {
	return fields{"receipt": kept(receipt), "seq": is{seq}, "attempt": is{attempt}, "priority": is{100}, "payload": is{payload},
		"headers": fields{}, "leased_until_ms": integer}
}

const (
	configureRoute = "PUT /api/v1/queues/:name"
	batchRoute     = "POST /api/v1/queues/:name/batch"
	dequeueRoute   = "POST /api/v1/queues/:name/dequeue"
	ackRoute       = "POST /api/v1/queues/:name/ack"
	nackRoute      = "POST /api/v1/queues/:name/nack"
	extendRoute    = "POST /api/v1/queues/:name/extend"
	releaseRoute   = "POST /api/v1/queues/:name/release"
	redriveRoute   = "POST /api/v1/queues/:name/dlq/redrive"
)

var noMessages = fields{"messages": items{}}

var queueWorkContract = []contractRow{
	{dequeueRoute, workPath + "/dequeue", "", 200, noMessages}, // a queue that does not exist is empty
	{configureRoute, workPath, `{"max_attempts":2,"backoff_min_ms":1,"backoff_max_ms":1,"max_len":4}`, 200,
		fields{"ok": is{true}, "queue": is{"jobs"}}},
	{configureRoute, workPath, `{"max_attempts":-1}`, 400, failure},
	{configureRoute, workPath, `{"backoff_min_ms":18446744073710}`, 400, failure}, // in ns it would wrap around to 448 ms
	{configureRoute, workPath, `{"max_attempt":1}`, 400, failure},
	{configureRoute, workPath, `{"max_len":"1"}`, 400, failure},
	{configureRoute, workPath, `[]`, 400, failure},

	{batchRoute, workPath + "/batch", `{"messages":[{"payload":"a"},{"payload":"b","priority":7,"headers":{"k":"v"},"dedup_key":"b"},
		{"payload":"b","dedup_key":"b"}]}`, 200, fields{"seqs": items{is{1}, is{2}, is{2}}, "duplicates": items{is{2}}}},
	{batchRoute, workPath + "/batch?encoding=base64", `{"messages":[{"payload":"/w==","headers":{"k":"dg=="}}]}`, 200,
		fields{"seqs": items{is{3}}, "duplicates": items{}}},
	{batchRoute, workPath + "/batch?encoding=base64", `{"messages":[{"payload":"","headers":{"k":"v"}}]}`, 400, failure},
	{batchRoute, workPath + "/batch", `{"messages":[{"payload":"a"},{"payload":"b"}]}`, 429, failure}, // of max_len 4, three are there
	{batchRoute, workPath + "/batch", `{"messages":[]}`, 400, failure},
	{batchRoute, workPath + "/batch", `{"messages":[{"priority":256}]}`, 400, failure},
	{batchRoute, workPath + "/batch", `{"messages":[{"prio":1}]}`, 400, failure},
	{batchRoute, workPath + "/batch", "", 400, failure},

	{dequeueRoute, workPath + "/dequeue", `{"max":1,"lease_ms":60000}`, 200, fields{"messages": items{
		fields{"receipt": kept("<b>"), "seq": is{2}, "attempt": is{1}, "priority": is{7}, "payload": is{"b"},
			"headers": fields{"k": is{"v"}}, "leased_until_ms": integer}}}},
	{dequeueRoute, workPath + "/dequeue?encoding=base64", `{"max":1000}`, 200, fields{"messages": items{
		leased("<a>", "YQ==", 1, 1),
		fields{"receipt": kept("<c>"), "seq": is{3}, "attempt": is{1}, "priority": is{100}, "payload": is{"/w=="},
			"headers": fields{"k": is{"dg=="}}, "leased_until_ms": integer}}}},
	{dequeueRoute, workPath + "/dequeue", `{"wait_ms":1}`, 200, noMessages},
	{dequeueRoute, workPath + "/dequeue", `{"wait_ms":60001}`, 400, failure},
	{dequeueRoute, workPath + "/dequeue", `{"wait_ms":-1}`, 400, failure},
	{dequeueRoute, workPath + "/dequeue", `{"max":0}`, 400, failure},
	{dequeueRoute, workPath + "/dequeue", `{"max":1001}`, 400, failure},
	{dequeueRoute, workPath + "/dequeue", `{"lease_ms":0}`, 400, failure},

	{extendRoute, workPath + "/extend", `{"receipt":"<a>","lease_ms":90000}`, 200, fields{"leased_until_ms": integer}},
	{extendRoute, workPath + "/extend", `{"receipt":"<a>","lease_ms":0}`, 400, failure},
	{extendRoute, workPath + "/extend", `{"receipt":"1-1"}`, 409, failure},
	{ackRoute, workPath + "/ack", `{"receipts":["<b>","1-1"]}`, 409, failure},
	{ackRoute, workPath + "/ack", `{"receipts":["<b>"]}`, 200, fields{"acked": is{1}}},
	{ackRoute, workPath + "/ack", `{"receipts":["<b>"]}`, 409, failure},
	{ackRoute, workPath + "/ack", `{"receipts":["b"]}`, 400, failure},
	{ackRoute, workPath + "/ack", `{"receipts":[]}`, 400, failure},
	{ackRoute, workPath + "/ack", ``, 400, failure},
	{ackRoute, workPath + "/ack", `{"receipts":[1]}`, 400, failure},
	{releaseRoute, workPath + "/release", `{"receipts":["<a>"]}`, 200, fields{"released": is{1}}},
	{nackRoute, workPath + "/nack", `{"receipts":["<c>"],"receipt":"<c>"}`, 400, failure},
	{nackRoute, workPath + "/nack", `{}`, 400, failure},
	{nackRoute, workPath + "/nack", `{"receipt":"<c>","delay_ms":0,"to_dlq":true}`, 400, failure},
	{nackRoute, workPath + "/nack", `{"receipt":"<c>","reason":"no such user","to_dlq":true}`, 200, fields{"nacked": is{1}}},
	{redriveRoute, workPath + "/dlq/redrive", `{"contains":"other"}`, 200, fields{"requeued": is{0}}},
	{redriveRoute, workPath + "/dlq/redrive", "", 200, fields{"requeued": is{1}}},
	{redriveRoute, workPath + "/dlq/redrive?contains=x", "", 400, failure},
	{"PUT /api/v1/queues/:name/pause", workPath + "/pause", "", 200, fields{"ok": is{true}, "queue": is{"jobs"}, "paused": is{true}}},
	{dequeueRoute, workPath + "/dequeue", "", 200, noMessages},
	{"PUT /api/v1/queues/:name/resume", workPath + "/resume", "", 200, fields{"ok": is{true}, "queue": is{"jobs"}, "paused": is{false}}},
	{dequeueRoute, workPath + "/dequeue", "", 200, fields{"messages": items{leased("<a>", "a", 1, 1)}}}, // the release did not count
	{nackRoute, workPath + "/nack", `{"receipts":["<a>"],"delay_ms":0}`, 200, fields{"nacked": is{1}}},
	{dequeueRoute, workPath + "/dequeue", "", 200, fields{"messages": items{leased("<a>", "a", 1, 2)}}},
	{"DELETE /api/v1/queues/:name", workPath, "", 409, failure},
	{"DELETE /api/v1/queues/:name", workPath + "?force=true", "", 200, fields{"ok": is{true}, "queue": is{"jobs"}}},
	{"DELETE /api/v1/queues/:name", workPath, "", 404, failure},
	{"PUT /api/v1/queues/:name/pause", workPath + "/pause", "", 404, failure},
}
