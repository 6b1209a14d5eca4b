package dashboard

const (
	txnRoute = "POST /api/v1/txn"
	txnPath  = "/api/v1/txn?namespace=tools"
)

// refusedAt is the error body of a transaction that was refused because of one part.
func refusedAt(part string, index int) fields {
	return fields{"error": text, "part": is{part}, "index": is{index}}
}

var (
	written = fields{"version": integer, "revision": kept("<revision>")}
	added   = fields{"value": is{2}, "version": integer, "revision": integer}
)

var txnContract = []contractRow{
	{txnRoute, txnPath, `{"if":[{"op":"kv.absent","key":"t"}],"do":[{"op":"kv.put","key":"t","value":"1","ttl_ms":60000},
		{"op":"kv.incr","key":"hits","by":2},{"op":"queue.enqueue","name":"out","payload":"p","priority":3,"dedup_key":"k"},
		{"op":"queue.enqueue","name":"out","payload":"p","dedup_key":"k"},
		{"op":"stream.append","name":"log","key":"k","payload":"one","headers":{"h":"v"}}]}`, 200,
		fields{"ok": is{true}, "results": items{written, added, fields{"seq": is{1}, "duplicate": is{false}},
			fields{"seq": is{1}, "duplicate": is{true}}, fields{"id": kept("<logged>")}}}},
	{dequeueRoute, "/api/v1/queues/out/dequeue?namespace=tools", "", 200, fields{"messages": items{
		fields{"receipt": kept("<out>"), "seq": is{1}, "attempt": is{1},
			"priority": is{3}, "payload": is{"p"}, "headers": fields{}, "leased_until_ms": integer}}}},
	{readGroupRoute, "/api/v1/streams/log/groups/g/read?namespace=tools", `{"consumer":"c"}`, 200, fields{"records": items{
		fields{"ref": kept("<ref>"), "attempt": is{1}, "deadline_ms": integer, "id": known("<logged>"), "partition": is{0}, "key": is{"k"},
			"headers": fields{"h": is{"v"}}, "payload": is{"one"}, "at_ms": integer}}}},

	{txnRoute, txnPath, `{"if":[{"op":"kv.present","key":"t"},{"op":"kv.absent","key":"t"}],"do":[{"op":"kv.delete","key":"t"}]}`, 409,
		refusedAt("if", 1)},
	{txnRoute, txnPath, `{"do":[{"op":"kv.delete","key":"t"},{"op":"kv.put","key":"t2","value":"","if_revision":1}]}`, 409, refusedAt("do", 1)},
	{txnRoute, txnPath, `{"if":[{"op":"queue.held","name":"out","receipt":"1-1"}],"do":[{"op":"kv.delete","key":"t"}]}`, 409,
		refusedAt("if", 0)},
	{txnRoute, txnPath, `{"do":[{"op":"kv.put","key":"t","value":"","nx":true}]}`, 409, refusedAt("do", 0)},
	{txnRoute, txnPath, `{"do":[{"op":"action.invoke","name":"none"}]}`, 404, refusedAt("do", 0)},
	{txnRoute, txnPath, `{"do":[{"op":"workflow.start","name":"none","input":1}]}`, 404, refusedAt("do", 0)},
	{txnRoute, txnPath, `{"do":[{"op":"workflow.signal","run_id":"none","type":"s"}]}`, 404, refusedAt("do", 0)},
	{txnRoute, txnPath, `{"if":[{"op":"stream.last_id_is","name":"log","partition":0}],"do":[{"op":"kv.delete","key":"t"}]}`, 409,
		refusedAt("if", 0)},
	{txnRoute, txnPath, `{"if":[{"op":"kv.revision_is","key":"t","revision":<revision>},{"op":"queue.held","name":"out","receipt":"<out>"},
		{"op":"stream.last_id_is","name":"log","partition":0,"id":"<logged>"}],
		"do":[{"op":"queue.ack","name":"out","receipts":["<out>"]},{"op":"stream.ack","name":"log","group":"g","refs":["<ref>"]},
		{"op":"kv.put","key":"t","value":"2","if_revision":<revision>},{"op":"kv.delete","key":"t"}]}`, 200,
		fields{"ok": is{true}, "results": items{fields{}, fields{"acked": is{1}}, written, written}}},

	{txnRoute, txnPath, `{"do":[]}`, 400, failure},
	{txnRoute, txnPath, `{}`, 400, failure},
	{txnRoute, txnPath, `{"if":[{"op":"kv.revision_is","key":"none"}],"do":[{"op":"kv.put","key":"t","value":"1"}]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[{"op":"kv.put","key":"t"}]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[{"op":"kv.put","value":"t"}]}`, 400, failure},
	{txnRoute, txnPath, "", 400, failure},
	{txnRoute, txnPath, `{"do":[{"op":"kv.get","key":"t"}]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[{"key":"t"}]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[null]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[[]]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[{"op":"kv.put","key":"t","values":"1"}]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[{"op":"kv.put","key":"","value":"1"}]}`, 400, refusedAt("do", 0)},
	{txnRoute, txnPath, `{"if":[{"op":"kv.put","key":"t"}],"do":[{"op":"kv.put","key":"t","value":"1"}]}`, 400, failure},
	{txnRoute, txnPath, `{"if":[{"op":"stream.last_id_is","name":"log","id":"x"}],"do":[{"op":"kv.delete","key":"t"}]}`, 400, failure},
	{txnRoute, txnPath, `{"do":[{"op":"stream.ack","name":"log","group":"g","refs":["x"]}]}`, 400, failure},
	{txnRoute, txnPath + "&encoding=base64", `{"do":[{"op":"kv.put","key":"b","value":"/w=="}]}`, 200,
		fields{"ok": is{true}, "results": items{written}}},
	{txnRoute, txnPath + "&encoding=base64", `{"do":[{"op":"kv.put","key":"b","value":"x"}]}`, 400, failure},
}
