package dashboard

const partsPath = "/api/v1/txn?namespace=shop"

// doneWith is the response to a transaction whose operations have these results.
func doneWith(results ...shape) fields {
	return fields{"ok": is{true}, "results": items(results)}
}

// txnPartsContract has the operations that txnContract lacks. The workflow order of the namespace
// shop waits for a signal.
var txnPartsContract = []contractRow{
	{txnRoute, partsPath, `{"do":[{"op":"kv.incr","key":"n","by":5,"min":0,"max":5,"ttl_ms":60000},{"op":"kv.touch","key":"n","ttl_ms":0},
		{"op":"kv.touch","key":"n","ttl_ms":1000}]}`, 200,
		doneWith(fields{"value": is{5}, "version": is{1}, "revision": integer}, fields{}, fields{})},
	{txnRoute, partsPath, `{"do":[{"op":"kv.incr","key":"n","max":5}]}`, 409, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"kv.touch","key":"n"}]}`, 400, failure},
	{txnRoute, partsPath, `{"do":[{"op":"kv.touch","key":"none","ttl_ms":0}]}`, 404, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"kv.patch","key":"doc","set":{"a":1,"b":[2]},"delete":["c"]},
		{"op":"kv.put","key":"n","value":"","nx":true}]}`, 404, refusedAt("do", 0)}, // c does not exist
	{txnRoute, partsPath, `{"do":[{"op":"kv.patch","key":"doc","set":{"a":1,"b":[2]}},{"op":"kv.put","key":"n","value":"","nx":true}]}`,
		409, refusedAt("do", 1)},
	{txnRoute, partsPath, `{"do":[{"op":"kv.patch","key":"doc","set":{"a":1,"b":[2]}},{"op":"kv.patch","key":"doc","delete":["a"]}]}`,
		200, doneWith(fields{"version": is{2}, "revision": integer}, fields{"version": is{3}, "revision": integer})},
	{txnRoute, partsPath, `{"do":[{"op":"kv.patch","key":"doc"}]}`, 400, failure},
	{txnRoute, partsPath, `{"do":[{"op":"kv.patch","key":"doc","set":{"a":1},"delete":["a"]}]}`, 400, failure},

	{txnRoute, partsPath, `{"do":[{"op":"queue.enqueue","name":"parts","payload":"p"},{"op":"queue.enqueue","name":"parts","payload":"q"},
		{"op":"queue.dequeue","name":"parts","max":2,"lease_ms":60000},{"op":"queue.dequeue","name":"parts"}]}`, 200,
		doneWith(fields{"seq": is{1}, "duplicate": is{false}}, fields{"seq": is{2}, "duplicate": is{false}},
			fields{"messages": items{leasedPart("<p>", 1, "p"), leasedPart("<q>", 2, "q")}}, fields{"messages": items{}})},
	{txnRoute, partsPath, `{"do":[{"op":"queue.dequeue","name":"parts","max":0}]}`, 400, failure},
	{txnRoute, partsPath, `{"do":[{"op":"queue.dequeue","name":"nowhere"}]}`, 200, doneWith(fields{"messages": items{}})},
	{txnRoute, partsPath, `{"do":[{"op":"queue.extend","name":"parts","receipt":"<p>","lease_ms":90000},
		{"op":"queue.nack","name":"parts","receipts":["<p>"],"delay_ms":60000,"reason":"late"},
		{"op":"queue.release","name":"parts","receipts":["<q>"]}]}`, 200,
		doneWith(fields{"leased_until_ms": integer}, fields{}, fields{"released": is{1}})},
	{txnRoute, partsPath, `{"do":[{"op":"queue.nack","name":"parts","receipts":["<p>"]}]}`, 409, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"queue.nack","name":"parts","receipts":["<p>"],"delay_ms":0,"to_dlq":true}]}`, 400,
		refusedAt("do", 0)},

	{txnRoute, partsPath, `{"do":[{"op":"stream.append","name":"parts","payload":"p","dedup":{"producer":"t","sequence":1}},
		{"op":"stream.append","name":"parts","payload":"p","dedup":{"producer":"t","sequence":1}}]}`, 200,
		doneWith(fields{"id": kept("<part>")}, fields{"id": known("<part>")})},
	{readGroupRoute, "/api/v1/streams/parts/groups/g/read?namespace=shop", `{"consumer":"c"}`, 200, fields{"records": items{
		fields{"ref": kept("<partref>"), "attempt": is{1}, "deadline_ms": integer, "id": known("<part>"), "partition": is{0}, "key": is{""},
			"headers": fields{}, "payload": is{"p"}, "at_ms": integer}}}},
	{txnRoute, partsPath, `{"do":[{"op":"stream.extend","name":"parts","group":"g","refs":["<partref>"],"lease_ms":60000},
		{"op":"stream.nack","name":"parts","group":"g","refs":["<partref>"],"delay_ms":0},
		{"op":"stream.extend","name":"parts","group":"g","refs":["<partref>"]}]}`, 200,
		doneWith(fields{"extended": is{1}, "deadline_ms": integer}, fields{"nacked": is{1}},
			fields{"extended": is{0}, "deadline_ms": is{0}})},
	{txnRoute, partsPath, `{"do":[{"op":"stream.seek","name":"parts","group":"g","to":"latest","partition":0},
		{"op":"stream.leave","name":"parts","group":"g","consumer":"c"},{"op":"stream.seek","name":"parts","group":"g","to":"0"}]}`, 200,
		doneWith(fields{}, fields{}, fields{})},
	{ackGroupRoute, "/api/v1/streams/parts/groups/g/ack?namespace=shop", `{"refs":["<partref>"]}`, 200, fields{"acked": is{0}}},
	{readGroupRoute, "/api/v1/streams/parts/groups/g/read?namespace=shop", `{"consumer":"c"}`, 200, fields{"records": items{
		fields{"ref": kept("<again>"), "attempt": is{1}, "deadline_ms": integer, "id": known("<part>"), "partition": is{0}, "key": is{""},
			"headers": fields{}, "payload": is{"p"}, "at_ms": integer}}}},
	{txnRoute, partsPath, `{"do":[{"op":"stream.ack","name":"parts","group":"g","refs":["<partref>"]}]}`, 409, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"stream.ack","name":"parts","group":"g","refs":["<again>"]}]}`, 200, doneWith(fields{"acked": is{1}})},
	{ackGroupRoute, "/api/v1/streams/parts/groups/g/ack?namespace=shop", `{"refs":["0-1-1-0-00000000"]}`, 400, failure},
	{txnRoute, partsPath, `{"do":[{"op":"stream.seek","name":"parts","group":"g","to":"nowhere"}]}`, 400, failure},
	{txnRoute, partsPath, `{"do":[{"op":"stream.nack","name":"parts","group":"other","refs":["<partref>"]}]}`, 400, failure},

	{txnRoute, partsPath, `{"do":[{"op":"ts.write","points":[{"measurement":"parts","tags":{"a":"b"},"fields":{"v":1},"time_ms":1000},
		{"measurement":"parts","fields":{"v":2.5}}]}]}`, 200, doneWith(fields{"written": is{2}})},
	{txnRoute, partsPath, `{"do":[{"op":"ts.write","points":[]}]}`, 400, failure},
	{txnRoute, partsPath, `{"do":[{"op":"ts.write","points":[{"measurement":"","fields":{"v":1}}]}]}`, 400, refusedAt("do", 0)},

	{registerActionRoute, "/api/v1/actions/part?namespace=shop", `{}`, 200, fields{"ok": is{true}, "name": is{"part"}, "version": is{1}}},
	{txnRoute, partsPath, `{"do":[{"op":"action.invoke","name":"part","priority":7,"expire_ms":60000,"timeout_ms":60000,"max_attempts":2},
		{"op":"action.invoke","name":"part","delay_ms":60000}]}`, 200,
		doneWith(fields{"run_id": kept("<partrun>"), "duplicate": is{false}}, fields{"run_id": kept("<later>"), "duplicate": is{false}})},
	{txnRoute, partsPath, `{"do":[{"op":"action.invoke","name":"part","max_attempts":-1}]}`, 400, failure},
	{awaitRoute, handPath + "/await?namespace=shop", `{"actions":["part"],"wait_ms":10000}`, 200, fields{"runs": items{partTask(1, "")}}},
	{txnRoute, partsPath, `{"if":[{"op":"action.held","run_id":"<partrun>","worker_id":"hand","delivery":2}],"do":[{"op":"kv.delete","key":"n"}]}`,
		409, refusedAt("if", 0)},
	{txnRoute, partsPath, `{"if":[{"op":"action.held","run_id":"<partrun>","worker_id":"other"}],"do":[{"op":"kv.delete","key":"n"}]}`,
		409, refusedAt("if", 0)},
	{txnRoute, partsPath, `{"if":[{"op":"action.held","run_id":"<partrun>","worker_id":""}],"do":[{"op":"kv.delete","key":"n"}]}`,
		400, refusedAt("if", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"action.fail","run_id":"<partrun>","worker_id":"hand","delivery":1,"error":"cold","code":"c","retry":true,
		"delay_ms":0}]}`, 200, doneWith(fields{})},
	{awaitRoute, handPath + "/await?namespace=shop", `{"actions":["part"],"wait_ms":10000}`, 200, fields{"runs": items{partTask(2, "cold")}}},
	{txnRoute, partsPath, `{"if":[{"op":"action.held","run_id":"<partrun>","worker_id":"hand","delivery":2}],
		"do":[{"op":"action.complete","run_id":"<partrun>","worker_id":"hand","output":{"a":1},"outcome":"fine"},
		{"op":"action.cancel","run_id":"<later>","reason":"not needed"}]}`, 200, doneWith(fields{}, fields{})},
	{txnRoute, partsPath, `{"do":[{"op":"action.complete","run_id":"<partrun>","worker_id":"hand"}]}`, 409, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"action.complete","run_id":"none","worker_id":"hand"}]}`, 400, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"action.complete","worker_id":"hand"}]}`, 400, failure},

	{enableRoute, "/api/v1/workflow/definitions/order/enable?namespace=shop", "", 200, enabledOf("order", true)},
	{txnRoute, partsPath, `{"do":[{"op":"workflow.start","name":"order","input":{"id":9},"version":"1","run_id":"parts"},
		{"op":"workflow.cancel","run_id":"parts","reason":"again"}]}`, 200,
		doneWith(fields{"run_id": is{"parts"}, "duplicate": is{false}}, fields{"status": is{"cancelled"}})},
	{txnRoute, partsPath, `{"do":[{"op":"workflow.start","name":"order","version":"9"}]}`, 404, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"workflow.retry","run_id":"parts","from_step":"_start","input":1}]}`, 409, refusedAt("do", 0)},
	{txnRoute, partsPath, `{"do":[{"op":"workflow.retry","run_id":"none"}]}`, 404, refusedAt("do", 0)},
}

func leasedPart(receipt string, seq int, payload string) fields {
	return fields{"receipt": kept(receipt), "seq": is{seq}, "attempt": is{1}, "priority": is{100}, "payload": is{payload},
		"headers": fields{}, "leased_until_ms": integer}
}

func partTask(attempt int, lastError string) fields {
	return fields{"run_id": known("<partrun>"), "action": is{"part"}, "attempt": is{attempt}, "delivery": is{attempt}, "input": is{nil},
		"labels": fields{}, "last_error": is{lastError}, "deadline_ms": integer}
}
