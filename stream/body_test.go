package stream

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestBodiesInJSON: a body that this package does not produce but admits survives a round trip
// through JSON.
func TestBodiesInJSON(t *testing.T) {
	group := groupTarget{group: "g"}
	known := groupTarget{target{&spec{id: 1, version: 2, partitions: 3, policy: policy{4, 5, 6}}}, "g",
		&groupSpec{7, 8, groupConfig{mode: KeyShared, ackTimeout: 9}}}
	config := defaultGroup().groupConfig
	config.mode, config.start, config.maxAttempts, config.backoffMin = Exclusive, start{startEnd, ID{5, 6}}, 7, 8
	p := table()
	for name, op := range map[string]engine.Op{
		"IDs that no record has": checkLast.Op("s", lastBody{partition: 1, id: ID{math.MinInt64, math.MaxUint64}}, nil),
		"start with an ID":       createGroup.Op("s", createGroupBody{group, config}, nil),
		"start at an ID":         seek.Op("s", seekBody{group, start{startAt, ID{-1, 2}}, 3}, nil),
		"settings of no meaning": configureGroup.Op("s", configureBody{group, setAckTimeout, config}, nil),
		"all settings":           configureGroup.Op("s", configureBody{group, allSettings, config}, nil),
		"specs":                  adoptGroup.Op("s", known, nil),
		"runs": ack.Op("s",
			ackBody{refsBody{known, []refRun{{Ref{1, 2, 3, 0}, 1}, {Ref{1, 3, 3, 9}, 4}, {Ref{1, 2, 3, 10}, 1}}}, true}, nil),
		"to the dead letters": nack.Op("s", nackBody{refsBody{group, []refRun{{Ref{1, 2, 0, 0}, 1}}}, toDLQ, []byte("\xff")}, nil),
		"delayed":             nack.Op("s", nackBody{refsBody{group, []refRun{{Ref{1, 2, 0, 0}, 1}}}, 0, nil}, nil),
		"backed off":          nack.Op("s", nackBody{refsBody{group, []refRun{{Ref{1, 2, 0, 0}, 1}}}, byBackoff, nil}, nil),
		"read":                readGroup.Op("s", readGroupBody{known, "c", 3, true, true, config, 4}, nil),
		"append": appendOp("s", []Message{{Key: "\xff", Payload: []byte{0xff}, Headers: map[string]string{"a": "b"}}, {}},
			appendOptions{partition: 2, producer: "p", expect: true, lastID: ID{1, 2}}, known.spec),
		"trim to an age": trimStream.Op("s", trimBody{bound: trimToAge, n: 5, before: ID{1, 2}}, nil),
		"trim to an ID":  trimStream.Op("s", trimBody{bound: trimToID, n: 5, before: ID{1, 2}, dryRun: true}, nil),
	} {
		cmd, err := op.Limit(engine.DefaultMaxPayload)
		if err == nil {
			err = p.Admit(cmd, engine.DefaultMaxPayload)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		machinetest.SameInJSON(t, p, cmd)
	}
}

// TestJSONOfBodies reads bodies as users write them.
func TestJSONOfBodies(t *testing.T) {
	p := table()
	for _, tt := range []struct{ command, body, want string }{
		{"create", `{}`, `{"partitions":1,"retention":{"max_age_ms":0,"max_len":0,"max_bytes":0}}`},
		{"create", `{"retention":{"max_len":5}}`, `{"partitions":1,"retention":{"max_age_ms":0,"max_len":5,"max_bytes":0}}`},
		{"create", `{"retention":{"max_length":5}}`, `field "retention.max_length": unknown`},
		{"create", `{"retention":5}`, `field "retention": want an object, got 5`},
		{"create", `{"partitions":1025}`, "stream: partitions 1025 is not in 1-1024"},
		{
			"append", `{"messages":[{"payload":"a"}],"dedup":{"producer":"p","sequence":7}}`,
			`{"dedup":{"producer":"p","sequence":7},"messages":[{"key":"","payload":"a"}]}`,
		},
		{"append", `{"messages":[{}],"dedup":{}}`, "producer name is empty"},
		{"append", `{"messages":[{}],"partition":-1}`, "stream: partition -1 is not in 0-1023"},
		{"append", `{}`, "stream: 0 messages are not in 1-10000"},
		{"trim", `{"max_len":1,"max_bytes":2}`, "stream: trim has 2 bounds, expected one of max_len, max_age_ms, before, max_bytes"},
		{"trim", `{"max_len":-1}`, "stream: max len -1 is negative"},
		{"trim", `{"before":"5"}`, `{"before":"5-0","dry_run":false}`},
		{
			"create group", `{"group":"g","max_attempts":1}`,
			`{"group":"g","mode":"shared","start":"beginning","ack_timeout_ms":30000,"max_attempts":1,"backoff_min_ms":1000,"backoff_max_ms":300000}`,
		},
		{"create group", `{"group":"g","start":"later"}`, `id "later" is not of the form`},
		{"create group", `{"group":"g","mode":"fair"}`, `unknown mode "fair"`},
		{"create group", `{"group":"g","ack_timeout_ms":0}`, "stream: ack timeout of 0 ms is not in 1-2592000000"},
		{"create group", `{"group":"g","backoff_min_ms":9,"backoff_max_ms":8}`,
			"stream: min back-off of 9 ms exceeds max back-off of 8 ms"},
		{"create group", `{}`, "consumer group name is empty"},
		{"configure group", `{"group":"g"}`, `stream: consumer group "g": no settings to change`},
		{"configure group", `{"group":"g","backoff_min_ms":5}`, `{"group":"g","backoff_min_ms":5,"backoff_max_ms":300000}`},
		{
			"read group", `{"group":"g","consumer":"c"}`,
			`{"group":"g","consumer":"c","limit":100,"no_ack":false,"create":true,"settings":{"mode":"shared","start":"beginning","ack_timeout_ms":30000,"max_attempts":5,` +
				`"backoff_min_ms":1000,"backoff_max_ms":300000},"epoch":0}`,
		},
		{"read group", `{"group":"g"}`, "consumer name is empty"},
		{"read group", `{"group":"g","consumer":"c","limit":1001}`, "stream: limit 1001 is not in 1-1000"},
		{"ack", `{"group":"g","refs":["0-1-2","1-5-0-3"]}`, `{"group":"g","strict":false,"refs":["0-1-2","1-5-0-3"]}`},
		{"ack", `{"group":"g","refs":["0-1"]}`, `ref "0-1" is not of the form <partition>-<offset>-<attempt>`},
		{"ack", `{"group":"g","refs":["1024-1-1"]}`, "stream: partition 1024 is not in 0-1023"},
		{"ack", `{"group":"g","refs":["0-0-1"]}`, "stream: invalid run of 1 records at offset 0"},
		{"ack", `{"group":"g","refs":["0-1-1-9999","1-1-1-2"]}`, "stream: 10001 records are not in 1-10000"},
		{"nack", `{"group":"g","refs":["0-1-1"],"delay_ms":0}`, `{"group":"g","delay_ms":0,"to_dlq":false,"reason":"","refs":["0-1-1"]}`},
		{"nack", `{"group":"g","refs":["0-1-1"],"to_dlq":true}`, `{"group":"g","to_dlq":true,"reason":"","refs":["0-1-1"]}`},
		{"nack", `{"group":"g","refs":["0-1-1"],"to_dlq":true,"delay_ms":1}`, "delay and dead letter are mutually exclusive"},
		{"nack", `{"group":"g","refs":["0-1-1"],"delay_ms":-1}`, "stream: delay of -1 ms is not in 0-2592000000"},
		{"seek", `{"group":"g","to":"end","partition":3}`, `{"group":"g","to":"end","partition":3}`},
	} {
		at := slices.IndexFunc(p.Commands, func(c engine.CommandType) bool { return c.Name == tt.command })
		if at < 0 {
			t.Errorf("no command %q", tt.command)
			continue
		}
		c := p.Commands[at]
		cmd, err := c.Parse("s", []byte(tt.body), false).Limit(engine.DefaultMaxPayload)
		var got []byte
		if err == nil {
			got, err = c.Show(nil, cmd, false)
		}
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && string(got) != tt.want {
			t.Errorf("%s %s is %s, %v, want %s", tt.command, tt.body, got, err, tt.want)
		}
	}
}
