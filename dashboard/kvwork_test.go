package dashboard

import "encoding/json"

const (
	toolsPath    = "/api/v1/kv/namespaces/tools"
	patchRoute   = "PATCH " + kvPath + "/keys/:key"
	incrRoute    = "POST " + kvPath + "/keys/:key/incr"
	touchRoute   = "POST " + kvPath + "/keys/:key/touch"
	getsRoute    = "POST " + getsPath
	acquireRoute = "POST " + kvPath + "/locks/:key/acquire"
	renewRoute   = "POST " + kvPath + "/locks/:key/renew"
	unlockRoute  = "POST " + kvPath + "/locks/:key/release"
)

// keyDoneOf is the response to an operation on a key of the namespace tools.
func keyDoneOf(key string) fields {
	return fields{"ok": is{true}, "key": is{key}, "namespace": is{"tools"}}
}

func putOf(version int) fields {
	f := keyDoneOf("r")
	f["version"], f["lsn"] = is{version}, kept("<rev>")
	return f
}

func patchedOf(version int) fields {
	f := keyDoneOf("doc")
	f["version"], f["lsn"] = is{version}, integer
	return f
}

var kvWorkContract = []contractRow{
	{putRoute, toolsPath + "/keys/r?if_revision=0", `{"value":"1"}`, 200, putOf(1)},
	{putRoute, toolsPath + "/keys/r?if_revision=0", `{"value":"2"}`, 409, failure},
	{putRoute, toolsPath + "/keys/r?if_revision=<rev>", `{"value":"2"}`, 200, putOf(2)},
	{putRoute, toolsPath + "/keys/r?if_revision=-1", `{"value":"2"}`, 400, failure},
	{putRoute, toolsPath + "/keys/r?if_revision=1&if_version=1", `{"value":"2"}`, 400, failure},

	{incrRoute, toolsPath + "/keys/n/incr", "", 200, fields{"value": is{1}, "version": is{1}, "revision": integer}},
	{incrRoute, toolsPath + "/keys/n/incr", `{"by":-3,"min":-2}`, 200, fields{"value": is{-2}, "version": is{2}, "revision": integer}},
	{incrRoute, toolsPath + "/keys/n/incr", `{"by":-1,"min":-2}`, 409, failure},
	{incrRoute, toolsPath + "/keys/n/incr", `{"by":4,"max":1}`, 409, failure},
	{incrRoute, toolsPath + "/keys/n/incr", `{"by":9223372036854775808}`, 400, failure},
	{incrRoute, toolsPath + "/keys/n/incr", `{"by":1.5}`, 400, failure},
	{incrRoute, toolsPath + "/keys/m/incr", `{"by":9223372036854775807,"ttl_ms":60000}`, 200, fields{"value": is{json.Number("9223372036854775807")}, "version": is{1},
		"revision": integer}},
	{incrRoute, toolsPath + "/keys/m/incr", "", 400, failure},

	{patchRoute, toolsPath + "/keys/doc", `{"set":{"a.b":1,"c":[true,"é"]}}`, 200, patchedOf(2)},
	{patchRoute, toolsPath + "/keys/doc", `{"set":{"a.b":null},"delete":["c"]}`, 200, patchedOf(4)},
	{patchRoute, toolsPath + "/keys/doc", `{"set":{"x":1},"delete":["nowhere"]}`, 404, failure},
	{patchRoute, toolsPath + "/keys/doc", `{}`, 400, failure},
	{patchRoute, toolsPath + "/keys/doc", `{"set":{"x":1},"delete":["x"]}`, 400, failure},
	{patchRoute, toolsPath + "/keys/doc", `{"set":{"x":1,"x":2}}`, 400, failure},
	{patchRoute, toolsPath + "/keys/doc", `{"set":[]}`, 400, failure},
	{patchRoute, toolsPath + "/keys/n", `{"set":{"a":1}}`, 400, failure}, // through a number

	{getsRoute, toolsPath + "/get", `{"keys":["doc","none","m"]}`, 200, fields{"unread": items{}, "items": items{
		fields{"key": is{"doc"}, "value": is{`{"a":{"b":null}}`}, "version": is{4}, "revision": integer, "ttl_ms": is{nil}},
		fields{"key": is{"m"}, "value": is{"9223372036854775807"}, "version": is{1}, "revision": integer, "ttl_ms": integer}}}},
	{getsRoute, toolsPath + "/get?encoding=base64", `{"keys":["bg=="]}`, 200, fields{"unread": items{}, "items": items{
		fields{"key": is{"bg=="}, "value": is{"LTI="}, "version": is{2}, "revision": integer, "ttl_ms": is{nil}}}}},
	{getsRoute, toolsPath + "/get?encoding=base64", `{"keys":["n"]}`, 400, failure},
	{getsRoute, toolsPath + "/get", `{"keys":["n","n"]}`, 400, failure},
	{getsRoute, toolsPath + "/get", `{"keys":[]}`, 400, failure},
	{getsRoute, toolsPath + "/get", `{"keys":[""]}`, 400, failure},
	{getsRoute, "/api/v1/kv/namespaces/nowhere/get", `{"keys":["a"]}`, 200, fields{"unread": items{}, "items": items{}}},

	{touchRoute, toolsPath + "/keys/n/touch", `{"ttl_ms":60000}`, 200, keyDoneOf("n")},
	{touchRoute, toolsPath + "/keys/n/touch", `{"ttl_ms":0}`, 200, keyDoneOf("n")},
	{touchRoute, toolsPath + "/keys/n/touch", `{}`, 400, failure},
	{touchRoute, toolsPath + "/keys/n/touch", `{"ttl_ms":-1}`, 400, failure},
	{touchRoute, toolsPath + "/keys/none/touch", `{"ttl_ms":1}`, 404, failure},

	{acquireRoute, toolsPath + "/locks/door/acquire", `{"ttl_ms":60000}`, 200, fields{"token": kept("<token>"), "expires_at": integer}},
	{acquireRoute, toolsPath + "/locks/door/acquire", `{"ttl_ms":60000}`, 409, failure},
	{acquireRoute, toolsPath + "/locks/door/acquire", `{"ttl_ms":60000,"wait_ms":1}`, 409, failure},
	{acquireRoute, toolsPath + "/locks/door/acquire", `{"wait_ms":1}`, 400, failure},
	{renewRoute, toolsPath + "/locks/door/renew", `{"token":<token>,"ttl_ms":60000}`, 200, fields{"token": known("<token>"), "expires_at": integer}},
	{renewRoute, toolsPath + "/locks/door/renew", `{"token":1,"ttl_ms":60000}`, 409, failure},
	{renewRoute, toolsPath + "/locks/door/renew", `{"ttl_ms":60000}`, 400, failure},
	{unlockRoute, toolsPath + "/locks/door/release", `{"token":1}`, 409, failure},
	{unlockRoute, toolsPath + "/locks/door/release", `{"token":<token>}`, 200, keyDoneOf("door")},
	{unlockRoute, toolsPath + "/locks/door/release", `{"token":<token>}`, 409, failure},
}
