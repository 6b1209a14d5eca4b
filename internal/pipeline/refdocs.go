package pipeline

// tableDocs describes the tables of definitions.
var tableDocs = map[string]string{
	"job":               "The definition as a whole.",
	"sources":           "The sources of records. Each has either `stream` or `ts`. A single source needs no list.",
	"sources.stream":    "A stream. Its name alone is enough.",
	"sources.watermark": "The progress of event time in a source.",
	"sources.ts": "A field of a measurement. A point becomes the record `{\"measurement\", \"value\", \"timestamp_ms\", \"tags\"}`; " +
		"points arrive in order of time.",
	"operators.filter": "Keeps the records for which a condition is true.",
	"operators.map":    "Replaces the value of each record by a new JSON object. Its members are under `fields`, or beside `type`.",
	"operators.set": "Adds and replaces members of a JSON object. Text values are expressions. The members are under `fields`, or " +
		"beside `type`.",
	"operators.flatmap": "Emits a record for each element of an array. A record without the array is dropped.",
	"operators.keyby":   "Sets the key of records. A record without the value keeps its key.",
	"operators.aggregate": "Aggregates the records of each key: `{\"key\", \"value\", \"count\"}`, with " +
		"`window_start` and `window_end` for windows.",
	"operators.aggregates": "One of several results of an `aggregate`. `value` is an object with the results by name, and `count` the " +
		"number of records that have a field of at least one of them.",
	"operators.kv_lookup": "Joins records with the values of keys in KV.",
	"operators.classify": "Tags each record with the tags of all rules that are true. A rule that cannot be evaluated is false; no " +
		"record is dropped. Rules that exceed the budget of a record (see Expressions) are false too, and the record is also an " +
		"error.",
	"operators.rules": "A rule of `classify`.",
	"operators.dedup": "Drops records with a key that was seen before. Time is that of the append, after a join or window event time.",
	"operators.join":  "Joins records with those of another source by key. The records of that source enter the pipeline here.",
	"operators.func": "Calls a Go function of the host program, see `processing.Func`. A record for which it returns none is " +
		"dropped. On a node without the function the job waits.",
	"operators.passthrough": "Does nothing.",
	"sinks":                 "The destinations of records. Each has one of `stream`, `kv`, `queue` and `ts`. Missing destinations are created.",
	"sinks.stream":          "A stream. Its name alone is enough.",
	"sinks.kv":              "A key for each record, with its value.",
	"sinks.queue":           "A queue. Its name alone is enough. A full queue holds up the job.",
	"sinks.ts":              "Points of a measurement. Missing members are omitted.",
}

// keyDocs describes the keys of tables.
var keyDocs = map[string]string{
	"job.kind": "`Processing`", "job.name": "name of the job; need not be unique",
	"job.namespace":   "namespace of the job; default: the one it is submitted to",
	"job.description": "text", "job.version": "accepted, without effect",
	"job.parallelism": "processors of a tick, 1-64; default 1; results do not depend on it",
	"job.batch_size":  "records read at a time, 1-10,000; default 100",
	"job.on_error":    "`stream` (default): a record with an error goes to `<job>.errors`; `fail`: it fails the job",
	"job.stop_at": "`never` (default), or `latest`: the job completes after the last record that existed when it was submitted or " +
		"restored. Event time ends then, so all windows fire. A restored job reads on: a window with more records fires again, with " +
		"only those",
	"job.max_future_ms": "maximum lead of a record's event time over its append; default 1 h", "job.sources": "1-100 sources",
	"job.operators": "up to 100, applied in order to every record",
	"job.sinks":     "1-100 sinks",

	"sources.name":   "name of the source; a restored job finds its position by it",
	"sources.stream": "see sources.stream", "sources.ts": "see sources.ts",
	"sources.event_time":    "path to the event time, in ms or RFC 3339; default: the time of the append",
	"sources.watermark":     "see sources.watermark",
	"sources.max_future_ms": "as for the job", "sources.stop_at": "as for the job",
	"sources.stream.name": "name of the stream", "sources.stream.partitions": "`all` (default), `0`, `\"0-3\"`, `\"0,2\"` or a list",
	"sources.stream.start":     "`earliest` (default), `latest`, or the id of the record after which reading begins",
	"sources.stream.namespace": "must be that of the job",
	"sources.stream.stop_at":   "as for the job", "sources.stream.batch_size": "accepted, without effect",
	"sources.stream.poll_interval_ms":           "accepted, without effect: a stream wakes its jobs",
	"sources.watermark.max_out_of_orderness_ms": "maximum disorder of event times; default 5 s with event_time, else 0",
	"sources.watermark.idle_timeout_ms":         "time after which an idle partition no longer holds up the others; default 30 s",
	"sources.ts.measurement":                    "measurement to read", "sources.ts.field": "field to read; default `value`",
	"sources.ts.tags": "tags that a series must have", "sources.ts.poll_interval_ms": "interval of reads; default 1 s",
	"sources.ts.delay_ms":  "minimum age of a point when it is read; default 5 s. Points that are written later are missed and counted",
	"sources.ts.start":     "`earliest` (default) or `latest`",
	"sources.ts.namespace": "must be that of the job", "sources.ts.stop_at": "as for the job",
	"sources.ts.batch_size": "accepted, without effect",

	"operators.filter.condition":     "see Conditions",
	"operators.map.fields":           "members: `$.path`, `expr: ...`, text with `${$.path}`, or constants",
	"operators.set.fields":           "members: expressions, numbers, booleans, null, or objects and arrays of them",
	"operators.flatmap.array_field":  "path to the array",
	"operators.flatmap.element_key":  "path in the element to the key of the record",
	"operators.keyby.key_expression": "a path, text with `${$.path}`, or `expr: ...`",
	"operators.aggregate.function": "`sum`, `count`, `avg`, `min`, `max`, `first`, `last`, `distinct` (exact up to 1,024 values, " +
		"within about 3 % beyond) or `percentile` (within 1 %)", "operators.aggregate.field": "path to the value; optional for `count`",
	"operators.aggregate.percentile": "0-100, default 95",
	"operators.aggregate.aggregates": "up to 32, instead of function and field: see operators.aggregates",
	"operators.aggregates.name":      "name of the member of `value`", "operators.aggregates.function": "as for the operator",
	"operators.aggregates.field": "path to the value; optional for `count`. A record without the field is not counted here; the " +
		"result of no records is `null`, for `count` and `distinct` 0",
	"operators.aggregates.percentile":    "0-100, default 95",
	"operators.aggregate.window":         "`none` (default: a result with every record), `tumbling`, `sliding`, `session` or `count`",
	"operators.aggregate.window_size":    "seconds or a duration; of a count window, the number of records",
	"operators.aggregate.window_size_ms": "the same in ms",
	"operators.aggregate.count":          "number of records in a count window, which emits its result only when it is full",
	"operators.aggregate.slide": "seconds or a duration between sliding windows, at most the window's size; at most 1,000 panes of " +
		"gcd(size, slide) per window", "operators.aggregate.slide_ms": "the same in ms",
	"operators.aggregate.gap": "seconds or a duration without records that ends a session", "operators.aggregate.gap_ms": "the same in ms",
	"operators.aggregate.allowed_lateness":    "seconds or a duration in which late records make a window fire again",
	"operators.aggregate.allowed_lateness_ms": "the same in ms",
	"operators.aggregate.late_tag":            "tag of records that are later than that, for sinks that match it; default `late`",
	"operators.kv_lookup.lookup_key":          "text with `${$.path}`, or a path",
	"operators.kv_lookup.namespace":           "default: that of the job",
	"operators.kv_lookup.mode": "`filter` (default): keep the records with a value in KV; `enrich` (default with " +
		"enrich_field, or on_missing: pass or null): add the value",
	"operators.kv_lookup.enrich_field": "member for the value; default `lookup`",
	"operators.kv_lookup.on_missing":   "`pass` (default for enrich), `drop` (default for filter), `null` or `error`",
	"operators.classify.rules":         "up to 1,000 rules", "operators.classify.default_tag": "tag of records for which no rule is true",
	"operators.rules.condition": "see Conditions",
	"operators.rules.tag":       "tag to add, one of at most 32 of a job",
	"operators.dedup.key":       "a path, text with `${$.path}`, or `expr: ...`; default: the record's key",
	"operators.dedup.ttl_ms":    "time a key is remembered; default: no limit", "operators.join.source": "name of the other source",
	"operators.join.on":        "the key: a path, text with `${$.path}`, or `expr: ...`",
	"operators.join.within_ms": "maximum difference of event times",
	"operators.join.mode": "`inner` (default), or `left`: records without a partner pass too, with their own event " +
		"time, after within_ms",
	"operators.func.function":     "name of the function in `floe.Config.Funcs`",
	"operators.join.enrich_field": "member for the partner; default: the name of the source",

	"sinks.name":   "name of the sink, for messages and errors",
	"sinks.match":  "a tag or a list: only records with all of these tags; default: every record that is not late",
	"sinks.stream": "see sinks.stream",
	"sinks.kv":     "see sinks.kv", "sinks.queue": "see sinks.queue", "sinks.ts": "see sinks.ts", "sinks.stream.name": "name of the stream",
	"sinks.stream.key":       "key of the message: a path, or text with `${$.path}`; default: the record's key",
	"sinks.stream.namespace": "default: that of the job",
	"sinks.kv.key":           "a path, or text with `${$.path}`; default: the record's key", "sinks.kv.key_prefix": "prefix of the key",
	"sinks.kv.separator":  "separator between prefix and key; default `:`",
	"sinks.kv.write_mode": "`upsert` (default), `if_absent`, or `versioned`: every record is a revision", "sinks.kv.ttl_ms": "time to live of the key; default: none",
	"sinks.kv.namespace": "default: that of the job",
	"sinks.kv.name":      "accepted, without effect", "sinks.queue.name": "name of the queue", "sinks.queue.priority": "0-255, default 0",
	"sinks.queue.delay_ms":  "delay of the message",
	"sinks.queue.namespace": "default: that of the job", "sinks.ts.measurement": "measurement to write",
	"sinks.ts.tags":        "tags: names and paths",
	"sinks.ts.fields":      "fields: names and paths",
	"sinks.ts.value_field": "path of the only field, `value`", "sinks.ts.timestamp": "path; default: the event time",
	"sinks.ts.namespace": "default: that of the job",
}

// conditionDocs describes the forms of conditions.
var conditionDocs = [][2]string{
	{"expr: amount > 100", "records for which the expression is true, see Expressions"},
	{"json: $.amount>100",
		"a member by `= != ^= *= !^= !*= > >= < <=`: equal, begins with, contains, and their negations; text with such signs is " +
			"quoted"},
	{"value_contains: text", "values that contain the text"}, {"value_prefix: text", "values that begin with the text"},
	{"key_contains: text",
		"keys that contain the text"},
	{"key_prefix: text", "keys that begin with the text"}, {"key_equals: text", "the key"}, {"min_length: 10",
		"values of at least this many bytes"}, {"not_empty", "values that are not empty"},
	{"key_not_empty", "keys that are not empty"},
}
