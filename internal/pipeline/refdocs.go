package pipeline

// tableDocs describes the tables of definitions.
var tableDocs = map[string]string{
	"job":               "The definition as a whole.",
	"sources":           "Where records come from: each has one of `stream` and `ts`. One source may stand alone, without a list.",
	"sources.stream":    "A stream of the job's namespace; its name alone is enough.",
	"sources.watermark": "How event time of the source advances.",
	"sources.ts": "A field of a measurement. Points come as `{\"measurement\", \"value\", \"timestamp_ms\", \"tags\"}`, in " +
		"the order of their times.",
	"operators.filter": "Keeps the records for which a condition holds.",
	"operators.map":    "Makes a new JSON object of each record. Members stand under `fields`, or beside `type`.",
	"operators.set": "Adds and replaces members of the object that a record is. Values that are text are expressions. Members " +
		"stand under `fields`, or beside `type`.",
	"operators.flatmap": "Makes a record of each element of an array. A record without the array is dropped.",
	"operators.keyby":   "Sets the key of records. A record that lacks what it is made of keeps its key.",
	"operators.aggregate": "Computes one value of all records with the same key: `{\"key\", \"value\", \"count\"}`, with " +
		"`window_start` and `window_end` for windows.",
	"operators.aggregates": "One of several values that an `aggregate` computes: `value` is an object of them by their names, and " +
		"`count` counts the records that have the field of one of them.",
	"operators.kv_lookup": "Joins records with what KV has under a key.",
	"operators.classify": "Gives records the tags of all rules that hold. A rule that cannot be evaluated does not hold; no " +
		"record is dropped. Rules that take too long with a record (see Expressions) do not hold either, and are an error of the " +
		"record beside.",
	"operators.rules": "A rule of `classify`.",
	"operators.dedup": "Drops records whose key has been seen, by the time of their append; behind a join or a window by event time.",
	"operators.join":  "Joins records with those of another source that have the same key. The records of that source enter here.",
	"operators.func": "Calls a Go function of the program that the node is a part of, see `processing.Func`. A record for " +
		"which it returns none is dropped. On a node that does not have it the job waits.",
	"operators.passthrough": "Does nothing.",
	"sinks":                 "Where records go to: each has one of `stream`, `kv`, `queue` and `ts`. What does not exist is made.",
	"sinks.stream":          "A stream; its name alone is enough.",
	"sinks.kv":              "Keys, each with the value of the record.",
	"sinks.queue":           "A queue; its name alone is enough. A full one holds the job.",
	"sinks.ts":              "Points of a measurement. Members that are not there are left out.",
}

// keyDocs describes the keys of tables.
var keyDocs = map[string]string{
	"job.kind": "`Processing`", "job.name": "of the job; names need not be unique",
	"job.namespace":   "of the job; default: the one it is submitted to",
	"job.description": "text", "job.version": "accepted, without effect",
	"job.parallelism": "processors of a tick, 1-64; default 1; results do not depend on it",
	"job.batch_size":  "records read at a time, 1-10,000; default 100",
	"job.on_error":    "`stream` (default): a record that cannot be processed goes to `<job>.errors`; `fail`: the job fails",
	"job.stop_at": "`latest`: the job is completed when it has read what there was when it was submitted, or restored last; " +
		"event time ends then, so all windows fire. Restored, it reads on: a window that gets more records fires again, with those " +
		"alone; default `never`",
	"job.max_future_ms": "how far the event time of a record may be ahead of its append; default 1 h", "job.sources": "1-100 sources",
	"job.operators": "up to 100, applied in order to every record",
	"job.sinks":     "1-100 sinks",

	"sources.name": "by which a restored job finds its place in it", "sources.stream": "see sources.stream", "sources.ts": "see sources.ts",
	"sources.event_time":    "path to the event time, in ms or as of RFC 3339; default: the time of the append",
	"sources.watermark":     "see sources.watermark",
	"sources.max_future_ms": "as of the job", "sources.stop_at": "as of the job",
	"sources.stream.name": "of the stream", "sources.stream.partitions": "`all` (default), `0`, `\"0-3\"`, `\"0,2\"` or a list",
	"sources.stream.start":     "`earliest` (default), `latest`, or the id of a record behind which reading begins",
	"sources.stream.namespace": "that of the job, if any",
	"sources.stream.stop_at":   "as of the job", "sources.stream.batch_size": "accepted, without effect",
	"sources.stream.poll_interval_ms":           "accepted, without effect: a stream wakes its jobs",
	"sources.watermark.max_out_of_orderness_ms": "by how much event times may be out of order; default 5 s with event_time, else 0",
	"sources.watermark.idle_timeout_ms":         "when a partition in which nothing comes holds up the others no more; default 30 s",
	"sources.ts.measurement":                    "to read", "sources.ts.field": "default `value`",
	"sources.ts.tags": "that a series has to have", "sources.ts.poll_interval_ms": "default 1 s",
	"sources.ts.delay_ms":  "how old a point has to be to be read, default 5 s; points that are written later are missed, and counted",
	"sources.ts.start":     "`earliest` (default) or `latest`",
	"sources.ts.namespace": "that of the job, if any", "sources.ts.stop_at": "as of the job",
	"sources.ts.batch_size": "accepted, without effect",

	"operators.filter.condition":     "see Conditions",
	"operators.map.fields":           "members: `$.path`, `expr: ...`, text with `${$.path}` in it, or constants",
	"operators.set.fields":           "members: expressions, numbers, booleans, null, or objects and arrays of such",
	"operators.flatmap.array_field":  "path to the array",
	"operators.flatmap.element_key":  "path in the element to what becomes the key",
	"operators.keyby.key_expression": "a path, text with `${$.path}`, or `expr: ...`",
	"operators.aggregate.function": "`sum`, `count`, `avg`, `min`, `max`, `first`, `last`, `distinct` (exact up to 1,024 values, " +
		"within about 3 % beyond) or `percentile` (within 1 %)", "operators.aggregate.field": "path to the value; not needed by `count`",
	"operators.aggregate.percentile": "0-100, default 95",
	"operators.aggregate.aggregates": "up to 32, in place of function and field: see operators.aggregates",
	"operators.aggregates.name":      "of the member of `value`", "operators.aggregates.function": "as of the operator",
	"operators.aggregates.field": "path to the value; not needed by `count`. A record that lacks it is not counted here; a value " +
		"of no records is `null`, and 0 of `count` and `distinct`",
	"operators.aggregates.percentile":    "0-100, default 95",
	"operators.aggregate.window":         "`none` (default: told with every record), `tumbling`, `sliding`, `session` or `count`",
	"operators.aggregate.window_size":    "seconds or a duration; of a count window, the number of records",
	"operators.aggregate.window_size_ms": "the same in ms",
	"operators.aggregate.count":          "number of records in a count window, which emits its result only when it is full",
	"operators.aggregate.slide": "seconds or a duration between sliding windows, not more than the window's, at most 1,000 panes of " +
		"gcd(size, slide) a window", "operators.aggregate.slide_ms": "the same in ms",
	"operators.aggregate.gap": "seconds or a duration without records that ends a session", "operators.aggregate.gap_ms": "the same in ms",
	"operators.aggregate.allowed_lateness":    "seconds or a duration for which late records make a window fire again",
	"operators.aggregate.allowed_lateness_ms": "the same in ms",
	"operators.aggregate.late_tag":            "that records behind that get, for sinks that match it; default `late`",
	"operators.kv_lookup.lookup_key":          "text with `${$.path}`, or a path",
	"operators.kv_lookup.namespace":           "default: that of the job",
	"operators.kv_lookup.mode": "`filter` (default): keep the records for which there is a value; `enrich` (default with " +
		"enrich_field, or on_missing: pass or null): add it",
	"operators.kv_lookup.enrich_field": "member that takes the value; default `lookup`",
	"operators.kv_lookup.on_missing":   "`pass` (default of enrich), `drop` (default of filter), `null` or `error`",
	"operators.classify.rules":         "up to 1,000 rules", "operators.classify.default_tag": "of records for which no rule holds",
	"operators.rules.condition": "see Conditions",
	"operators.rules.tag":       "one of at most 32 of a job",
	"operators.dedup.key":       "a path, text with `${$.path}`, or `expr: ...`; default: the record's key",
	"operators.dedup.ttl_ms":    "how long a key is remembered; default: for ever", "operators.join.source": "whose records enter here",
	"operators.join.on":        "the key: a path, text with `${$.path}`, or `expr: ...`",
	"operators.join.within_ms": "by how much event times may differ",
	"operators.join.mode": "`inner` (default), or `left`: also pass on records that find no partner, with their own event " +
		"time, when the time is over",
	"operators.func.function":     "its name in `floe.Config.Funcs`",
	"operators.join.enrich_field": "member that takes the partner; default: the name of the source",

	"sinks.name":   "for messages and errors",
	"sinks.match":  "a tag or a list: only records that carry all of them; default: every record that is not late",
	"sinks.stream": "see sinks.stream",
	"sinks.kv":     "see sinks.kv", "sinks.queue": "see sinks.queue", "sinks.ts": "see sinks.ts", "sinks.stream.name": "of the stream",
	"sinks.stream.key":       "of the message: a path, or text with `${$.path}`; default: the record's key",
	"sinks.stream.namespace": "default: that of the job",
	"sinks.kv.key":           "a path, or text with `${$.path}`; default: the record's key", "sinks.kv.key_prefix": "in front of the key",
	"sinks.kv.separator":  "between the two; default `:`",
	"sinks.kv.write_mode": "`upsert` (default), `if_absent`, or `versioned`: every record is a revision", "sinks.kv.ttl_ms": "of the key",
	"sinks.kv.namespace": "default: that of the job",
	"sinks.kv.name":      "accepted, without effect", "sinks.queue.name": "of the queue", "sinks.queue.priority": "0-255, default 0",
	"sinks.queue.delay_ms":  "of the message",
	"sinks.queue.namespace": "default: that of the job", "sinks.ts.measurement": "to write", "sinks.ts.tags": "names and paths",
	"sinks.ts.fields":      "names and paths",
	"sinks.ts.value_field": "path of the only field, `value`", "sinks.ts.timestamp": "path; default: the event time",
	"sinks.ts.namespace": "default: that of the job",
}

// conditionDocs describes the forms of conditions.
var conditionDocs = [][2]string{
	{"expr: amount > 100", "what the expression is true for, see Expressions"},
	{"json: $.amount>100",
		"a member by `= != ^= *= !^= !*= > >= < <=`: equal, begins with, contains, and their opposites; text with signs in it stands " +
			"in quotes"},
	{"value_contains: text", "values with the text in them"}, {"value_prefix: text", "values that begin with it"}, {"key_contains: text",
		"keys with the text in them"},
	{"key_prefix: text", "keys that begin with it"}, {"key_equals: text", "one key"}, {"min_length: 10",
		"values of so many bytes at least"}, {"not_empty", "values that are not empty"},
	{"key_not_empty", "keys that are not empty"},
}
