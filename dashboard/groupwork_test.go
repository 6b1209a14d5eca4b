package dashboard

const crewPath = feedPath + "/groups/crew"

const (
	putGroupRoute    = "PUT " + groupPath
	readGroupRoute   = "POST " + groupPath + "/read"
	ackGroupRoute    = "POST " + groupPath + "/ack"
	nackGroupRoute   = "POST " + groupPath + "/nack"
	extendGroupRoute = "POST " + groupPath + "/extend"
	seekGroupRoute   = "POST " + groupPath + "/seek"
	leaveGroupRoute  = "POST " + groupPath + "/leave"
)

func groupPutOf(created bool) fields {
	return fields{"ok": is{true}, "stream": is{"feed"}, "group": is{"crew"}, "created": is{created}}
}

// delivered is a record of the stream feed in the response to a read of a group.
func delivered(ref, id, payload string, attempt int, headers fields) fields {
	f := feedRecord(id, "k", payload, headers)
	f["ref"], f["attempt"], f["deadline_ms"] = kept(ref), is{attempt}, integer
	return f
}

var (
	crewDone  = fields{"ok": is{true}, "stream": is{"feed"}, "group": is{"crew"}}
	noRecords = fields{"records": items{}}
)

// groupWorkContract consumes what streamWorkContract has appended.
var groupWorkContract = []contractRow{
	{putGroupRoute, crewPath, `{"mode":"none"}`, 400, failure},
	{putGroupRoute, crewPath, `{"start":"first"}`, 400, failure},
	{putGroupRoute, crewPath, `{"start":"-1"}`, 400, failure},
	{putGroupRoute, crewPath, `{"ack_timeout_ms":-1}`, 400, failure},
	{putGroupRoute, crewPath, `{"max_attempts":1000001}`, 400, failure},
	{putGroupRoute, crewPath, `{"max_attempts":3,"max_deliver":4}`, 400, failure},
	{putGroupRoute, "/api/v1/streams/nowhere/groups/crew", `{}`, 404, failure},
	{putGroupRoute, crewPath, `{"start":"latest","max_deliver":3,"ack_timeout_ms":60000}`, 200, groupPutOf(true)},
	{putGroupRoute, crewPath, `{"max_attempts":4}`, 200, groupPutOf(false)},
	{putGroupRoute, crewPath, `{"mode":"shared","start":"earliest"}`, 200, groupPutOf(false)},
	{putGroupRoute, crewPath, `{"mode":"key_shared"}`, 409, failure},

	{readGroupRoute, crewPath + "/read", `{"consumer":"ann"}`, 200, noRecords},
	{seekGroupRoute, crewPath + "/seek", `{"to":"<two>"}`, 200, crewDone},
	{readGroupRoute, crewPath + "/read", `{"consumer":"ann","limit":1}`, 200, fields{"records": items{
		delivered("<r2>", "<two>", "two", 1, fields{})}}},
	{readGroupRoute, crewPath + "/read?encoding=base64", `{"consumer":"ann","wait_ms":1000}`, 200, fields{"records": items{
		fields{"ref": kept("<r3>"), "attempt": is{1}, "deadline_ms": integer, "id": known("<three>"), "partition": integer,
			"key": is{"aw=="}, "headers": fields{"h": is{"dg=="}}, "payload": is{"/w=="}, "at_ms": integer}}}},
	{readGroupRoute, crewPath + "/read", `{"consumer":"bob","wait_ms":1}`, 200, noRecords},
	{readGroupRoute, crewPath + "/read", `{}`, 400, failure},
	{readGroupRoute, crewPath + "/read", `{"consumer":"ann","limit":1001}`, 400, failure},
	{readGroupRoute, crewPath + "/read", `{"consumer":"ann","wait_ms":60001}`, 400, failure},
	{readGroupRoute, "/api/v1/streams/nowhere/groups/crew/read", `{"consumer":"ann"}`, 404, failure},
	{readGroupRoute, "/api/v1/streams/nowhere/groups/crew/read", `{"consumer":"ann","wait_ms":1}`, 200, noRecords},

	{extendGroupRoute, crewPath + "/extend", `{"refs":["<r2>"],"lease_ms":120000}`, 200,
		fields{"extended": is{1}, "deadline_ms": integer}},
	{extendGroupRoute, crewPath + "/extend", `{"refs":["0-9-1-00000000"]}`, 400, failure},
	{extendGroupRoute, crewPath + "/extend", `{"refs":["<r2>"],"lease_ms":2592000001}`, 400, failure},
	{nackGroupRoute, crewPath + "/nack", `{"refs":["<r3>"],"delay_ms":2592000001}`, 400, failure},
	{nackGroupRoute, crewPath + "/nack", `{"refs":["<r3>"],"delay_ms":0,"reason":"later"}`, 200, fields{"nacked": is{1}}},
	{readGroupRoute, crewPath + "/read", `{"consumer":"bob"}`, 200, fields{"records": items{
		delivered("<r3>", "<three>", "\ufffd", 2, fields{"h": is{"v"}})}}},
	{ackGroupRoute, crewPath + "/ack", `{"refs":["0-1"]}`, 400, failure},
	{ackGroupRoute, crewPath + "/ack", `{"refs":["0-1-0"]}`, 400, failure},
	{ackGroupRoute, crewPath + "/ack", `{"refs":["0-1-1 "]}`, 400, failure},
	{ackGroupRoute, crewPath + "/ack", `{"refs":["00-1-1"]}`, 400, failure},
	{ackGroupRoute, crewPath + "/ack", `{"refs":[]}`, 400, failure},
	{ackGroupRoute, crewPath + "/ack", `{"refs":["<r2>"]}`, 200, fields{"acked": is{1}}},
	{extendGroupRoute, crewPath + "/extend", `{"refs":["<r2>"]}`, 200, fields{"extended": is{0}, "deadline_ms": is{0}}},
	{ackGroupRoute, feedPath + "/groups/none/ack", `{"refs":["<r3>"]}`, 400, failure}, // of another group
	{ackGroupRoute, "/api/v1/streams/other/groups/crew/ack", `{"refs":["<r3>"]}`, 400, failure},
	{leaveGroupRoute, crewPath + "/leave", `{"consumer":"bob"}`, 200, crewDone},
	{readGroupRoute, crewPath + "/read", `{"consumer":"ann"}`, 200, fields{"records": items{
		delivered("<r3>", "<three>", "\ufffd", 3, fields{"h": is{"v"}})}}},
	{nackGroupRoute, crewPath + "/nack", `{"refs":["<r3>"],"to_dlq":true}`, 200, fields{"nacked": is{1}}},
	{leaveGroupRoute, crewPath + "/leave", `{}`, 400, failure},
	{seekGroupRoute, crewPath + "/seek", `{"to":"nowhere"}`, 400, failure},
	{seekGroupRoute, crewPath + "/seek?partition=1024", `{"to":"latest"}`, 400, failure},
	{seekGroupRoute, "/api/v1/streams/feed/groups/none/seek", `{"to":"latest"}`, 404, failure},
}
