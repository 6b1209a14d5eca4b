package dashboard

const feedPath = "/api/v1/streams/feed"

const (
	putStreamRoute = "PUT /api/v1/streams/:name"
	appendRoute    = "POST /api/v1/streams/:name/messages"
	recordsRoute   = "GET /api/v1/streams/:name/records"
)

// feedRecord is a record of the stream feed.
func feedRecord(id, key, payload string, headers fields) fields {
	return fields{"id": known(id), "partition": integer, "key": is{key}, "headers": headers, "payload": is{payload}, "at_ms": integer}
}

func streamPutOf(created bool) fields {
	return fields{"ok": is{true}, "stream": is{"feed"}, "created": is{created}}
}

var streamWorkContract = []contractRow{
	{recordsRoute, feedPath + "/records", "", 404, failure},
	{recordsRoute, feedPath + "/records?wait_ms=1", "", 200, fields{"records": items{}, "next": is{"0-0"}}},
	{putStreamRoute, feedPath, `{"partitions":1025}`, 400, failure},
	{putStreamRoute, feedPath, `{"partitions":2,"retention":{"max_len":-1}}`, 400, failure},
	{putStreamRoute, feedPath, `{"retention":{"max_age":1}}`, 400, failure},
	{putStreamRoute, feedPath, `{"retention":null}`, 400, failure},
	{putStreamRoute, feedPath, `{"partitions":2,"retention":{"max_len":1000}}`, 200, streamPutOf(true)},
	{putStreamRoute, feedPath, "", 200, streamPutOf(false)},
	{putStreamRoute, feedPath, `{"partitions":2,"retention":{"max_age_ms":86400000}}`, 200, streamPutOf(false)},
	{putStreamRoute, feedPath, `{"partitions":3}`, 409, failure},
	{"GET /api/v1/streams/:name", feedPath, "", 200, fields{"name": is{"feed"}, "namespace": is{"default"}, "partitions": list{
		fields{"id": integer, "records": is{0}, "bytes": is{0}, "first_id": text, "last_id": text, "leader": text}},
		"ingest_rate": is{0}, "reads": is{0},
		"retention": is{"1d"}, "consumer_groups": items{}}},

	{appendRoute, feedPath + "/messages", `{"messages":[{"key":"k","payload":"one","headers":{"h":"v"}},{"key":"k","payload":"two"}]}`, 200,
		fields{"ids": items{kept("<one>"), kept("<two>")}}},
	{appendRoute, feedPath + "/messages?encoding=base64", `{"messages":[{"key":"aw==","payload":"/w==","headers":{"h":"dg=="}}],
		"dedup":{"producer":"p","sequence":1}}`, 200, fields{"ids": items{kept("<three>")}}},
	{appendRoute, feedPath + "/messages", `{"messages":[{"payload":"again"}],"dedup":{"producer":"p","sequence":1}}`, 200,
		fields{"ids": items{known("<three>")}}},
	{appendRoute, feedPath + "/messages", `{"messages":[{"payload":"again"}],"dedup":{"producer":"p","sequence":0}}`, 409, failure},
	{appendRoute, feedPath + "/messages", `{"messages":[{"payload":"x"}],"dedup":{"sequence":2}}`, 400, failure},
	{appendRoute, feedPath + "/messages", `{"messages":[]}`, 400, failure},
	{appendRoute, feedPath + "/messages", `{"messages":[{"payload":1}]}`, 400, failure},
	{appendRoute, feedPath + "/messages", `{"messages":[{"payload":"x","partition":1}]}`, 400, failure},
	{appendRoute, feedPath + "/messages?key=k", `{"messages":[{"payload":"x"}]}`, 400, failure},
	{appendRoute, feedPath + "/messages", "", 400, failure},

	{recordsRoute, feedPath + "/records", "", 200, fields{"next": known("<three>"), "records": items{
		feedRecord("<one>", "k", "one", fields{"h": is{"v"}}), feedRecord("<two>", "k", "two", fields{}),
		feedRecord("<three>", "k", "\ufffd", fields{"h": is{"v"}})}}},
	{recordsRoute, feedPath + "/records?after=<two>&encoding=base64", "", 200, fields{"next": known("<three>"), "records": items{
		feedRecord("<three>", "aw==", "/w==", fields{"h": is{"dg=="}})}}},
	{recordsRoute, feedPath + "/records?from_ms=0&limit=1", "", 200, fields{"next": known("<one>"), "records": items{
		feedRecord("<one>", "k", "one", fields{"h": is{"v"}})}}},
	{recordsRoute, feedPath + "/records?after=<three>&wait_ms=1", "", 200, fields{"next": known("<three>"), "records": items{}}},
	{recordsRoute, feedPath + "/records?from_ms=99999999999999", "", 200, fields{
		"next": is{"99999999999998-18446744073709551615"}, "records": items{}}},
	{recordsRoute, feedPath + "/records?after=&limit=1", "", 200, fields{"next": known("<one>"), "records": items{
		feedRecord("<one>", "k", "one", fields{"h": is{"v"}})}}},
	{recordsRoute, feedPath + "/records?after=0-0&limit=1", "", 200, fields{"next": known("<one>"), "records": items{
		feedRecord("<one>", "k", "one", fields{"h": is{"v"}})}}},
	{recordsRoute, feedPath + "/records?after=<one>&from_ms=0", "", 400, failure},
	{recordsRoute, feedPath + "/records?wait_ms=60001", "", 400, failure},
	{recordsRoute, feedPath + "/records?limit=1001", "", 400, failure},
	{recordsRoute, feedPath + "/records?partition=2", "", 400, failure},
	{recordsRoute, feedPath + "/records?cursor=x", "", 400, failure},
}
