package dashboard

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/ts"
)

// seedTimeseries writes, in the namespace shop, the measurement cpu: usage and n of web-01 and
// web-02, a minute apart from 1700000000000 on, and one of db-01; and an empty one whose name is
// awkward in a path.
func seedTimeseries(t *testing.T, node *floe.Node) {
	t.Helper()
	shop := node.TS("shop")
	const lines = `
cpu,host=web-01,region=eu usage=1.5,n=1i 1700000000000
cpu,host=web-01,region=eu usage=2.5,n=2i 1700000060000
cpu,host=web-02,region=eu usage=3 1700000000000
cpu,host=db-01 usage=10 1700000120000
`
	if result, err := shop.WriteLine(t.Context(), strings.NewReader(lines), ts.Milliseconds); err != nil || result.Written != 4 {
		t.Fatalf("WriteLine = %+v, %v", result, err)
	}
	retention := ts.Retention{RawTTL: 100 * 365 * 24 * time.Hour, Downsample: []ts.Downsample{{Every: 5 * time.Minute}}}
	if err := shop.SetRetention(t.Context(), "cpu", retention); err != nil {
		t.Fatal(err)
	}
	if _, err := shop.Write(t.Context(), ts.Point{Measurement: "a/b é", Fields: map[string]float64{"x": 1},
		Time: time.UnixMilli(5)}); err != nil {
		t.Fatal(err)
	}
}

const (
	measurementsRoute = "GET /api/v1/timeseries"
	measurementRoute  = "GET /api/v1/timeseries/:measurement"
	deleteRangeRoute  = "DELETE /api/v1/timeseries/:measurement"
	seriesRoute       = "GET /api/v1/timeseries/:measurement/series"
	retentionRoute    = "GET /api/v1/timeseries/:measurement/retention"
	setRetentionRoute = "PUT /api/v1/timeseries/:measurement/retention"
	dataRoute         = "GET /api/v1/timeseries/:measurement/data"
	floqlRoute        = "GET /api/v1/timeseries/floql"
	floqlPostRoute    = "POST /api/v1/timeseries/floql"
	extentRoute       = "GET /api/v1/console/timeseries/:measurement"
	tagsRoute         = "GET /api/v1/console/timeseries/:measurement/tags"
	linesRoute        = "POST /api/v1/console/timeseries/write"
	cpuPath           = "/api/v1/timeseries/cpu"
)

func measurementOf(name string, series, fieldCount, points int) fields {
	return fields{"name": is{name}, "series_count": is{series}, "field_count": is{fieldCount}, "points": is{points}}
}

// number is a JSON number as it is written.
func number(text string) shape { return is{json.Number(text)} }

func dataOf(field string, points ...string) fields {
	return fields{"measurement": is{"cpu"}, "field": is{field}, "series": pointsOf(points...)}
}

// pointsOf is points as "timestamp=value".
func pointsOf(points ...string) items {
	all := items{}
	for _, p := range points {
		at, v, _ := strings.Cut(p, "=")
		all = append(all, fields{"timestamp": number(at), "value": number(v)})
	}
	return all
}

func tagOf(key, value string) fields { return fields{"key": is{key}, "value": is{value}} }

var anyTag = fields{"key": text, "value": text}

func seriesOf(key, field string, tags items, points ...string) fields {
	return fields{"key": is{key}, "field": is{field}, "point_count": is{len(points)}, "tags": tags, "points": pointsOf(points...)}
}

func floqlSend(query string) string { return floqlPath + "?namespace=shop&q=" + url.QueryEscape(query) }

const (
	rangeQuery = `cpu{host=~"web-*"}[1700000000000..1700000600000] | field(usage) | window(5m) | group_by(host) | avg()`
	rangePost  = `cpu{region=eu,host!=web-02}[1700000000000..1700000600000] | field(usage)`
)

var (
	seededCPU    = measurementOf("cpu", 3, 2, 4)
	seededSingle = measurementOf("a/b é", 1, 1, 1)
	none         = items{}
)

var timeseriesContract = []contractRow{
	{measurementsRoute, "/api/v1/timeseries?namespace=shop", "", 200, items{seededSingle, seededCPU}},
	{measurementsRoute, "/api/v1/timeseries?namespace=shop&limit=1", "", 200, items{seededSingle}},
	{measurementsRoute, "/api/v1/timeseries?namespace=shop&limit=1&after=a/b%20%C3%A9", "", 200, items{seededCPU}},
	{measurementsRoute, "/api/v1/timeseries", "", 200, none},
	{measurementsRoute, "/api/v1/timeseries?namespace=nowhere", "", 200, none},
	{measurementsRoute, "/api/v1/timeseries?limit=0", "", 400, failure},

	{measurementRoute, cpuPath + "?namespace=shop", "", 200, fields{
		"name": is{"cpu"}, "namespace": is{"shop"}, "field_count": is{2}, "series_count": is{3}, "retention": is{"36500d, 5m for ∞"},
		"fields": items{fields{"name": is{"usage"}, "type": is{"float"}}, fields{"name": is{"n"}, "type": is{"integer"}}},
	}},
	{measurementRoute, "/api/v1/timeseries/a%2Fb%20%C3%A9?namespace=shop", "", 200, fields{
		"name": is{"a/b é"}, "namespace": is{"shop"}, "field_count": is{1}, "series_count": is{1}, "retention": is{"∞"},
		"fields": items{fields{"name": is{"x"}, "type": is{"float"}}},
	}},
	{measurementRoute, cpuPath, "", 404, failure},
	{measurementRoute, cpuPath + "?namespace=nowhere", "", 404, failure},

	{dataRoute, cpuPath + "/data?namespace=shop&field=", "", 400, fields{"error": is{"parameter field is empty"}}},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage", "", 200,
		dataOf("usage", "1700000000000=1.5", "1700000000000=3", "1700000060000=2.5", "1700000120000=10")},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&from=1700000060000&to=1700000120000", "", 200,
		dataOf("usage", "1700000060000=2.5")},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&tags=host=web-01", "", 200,
		dataOf("usage", "1700000000000=1.5", "1700000060000=2.5")},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&tags=region=eu,host=web-02", "", 200, dataOf("usage", "1700000000000=3")},
	{dataRoute, cpuPath + "/data?namespace=shop&field=n&tags=host=db-01", "", 200, dataOf("n")},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&max_points=2", "", 200,
		dataOf("usage", "1700000000000=1.5", "1700000120000=10")},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&max_points=100&from=1700000060000", "", 200,
		dataOf("usage", "1700000060000=2.5", "1700000120000=10")},
	{dataRoute, "/api/v1/timeseries/a%2Fb%20%C3%A9/data?namespace=shop", "", 200,
		fields{"measurement": is{"a/b é"}, "field": is{"x"}, "series": pointsOf("5=1")}},
	{dataRoute, cpuPath + "/data?namespace=shop", "", 400, failure}, // it has two fields
	{dataRoute, cpuPath + "/data?namespace=shop&field=idle", "", 404, failure},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&from=x", "", 400, failure},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&from=2&to=1", "", 400, failure},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&tags=host", "", 400, failure},
	{dataRoute, cpuPath + "/data?namespace=shop&field=usage&max_points=1", "", 400, failure},
	{dataRoute, cpuPath + "/data?field=usage", "", 404, failure},

	{floqlRoute, floqlSend(rangeQuery), "", 200, fields{"query": is{rangeQuery}, "series": items{
		seriesOf("cpu", "usage", items{tagOf("host", "web-01")}, "1699999800000=2"),
		seriesOf("cpu", "usage", items{tagOf("host", "web-02")}, "1699999800000=3")}}},
	{floqlRoute, floqlSend("cpu{host=web01}[1700000000000..1700000600000]"), "", 200, fields{"query": text, "series": none,
		"hints": items{is{`tag "host" of "cpu" has no value "web01" (did you mean "web-01"?)`}}}},
	{floqlRoute, floqlSend("cpu{hots=~web*} | field(usge)"), "", 200, fields{"query": text, "series": none, "hints": items{
		is{`measurement "cpu" has no field "usge" (did you mean "usage"?)`},
		is{`measurement "cpu" has no tag "hots" (did you mean "host"?)`}}}},
	{floqlRoute, floqlSend("cpu[1h] | window(5m) | avgg()"), "", 400,
		fields{"error": is{`col 24: unknown stage "avgg" (did you mean "avg"?)`}}},
	{floqlRoute, floqlPath, "", 400, failure},
	{floqlRoute, floqlPath + "?q=cpu&namespace=nowhere", "", 200,
		fields{"query": is{"cpu"}, "series": none, "hints": items{is{`unknown measurement "cpu"`}}}},
	{floqlPostRoute, floqlPath + "?namespace=shop", rangePost, 200, fields{"query": is{rangePost}, "series": items{
		seriesOf("cpu", "usage", items{tagOf("host", "web-01"), tagOf("region", "eu")}, "1700000000000=1.5", "1700000060000=2.5")}}},
	{floqlPostRoute, floqlPath + "?namespace=shop&q=cpu", "", 200, fields{"query": is{"cpu"}, "series": none}},
	{floqlPostRoute, floqlPath + "?namespace=shop&q=cpu", "cpu", 400, failure},
	{floqlPostRoute, floqlPath + "?namespace=shop&unknown=1", "cpu", 400, failure},
	{floqlPostRoute, floqlPath, "", 400, failure},
	{floqlPostRoute, floqlPath, "cpu | window(5m)", 400, failure},

	{extentRoute, "/api/v1/console/timeseries/cpu?namespace=shop", "", 200, fields{
		"name": is{"cpu"}, "points": integer, "oldest": integer, "newest": integer, "held_points": is{0}, "held_by": is{nil},
	}},
	{extentRoute, "/api/v1/console/timeseries/nosuch?namespace=shop", "", 404, failure},
	{tagsRoute, "/api/v1/console/timeseries/cpu/tags?namespace=shop", "", 200, items{
		fields{"key": is{"host"}, "values": items{is{"db-01"}, is{"web-01"}, is{"web-02"}}, "truncated": is{false}},
		fields{"key": is{"region"}, "values": items{is{"eu"}}, "truncated": is{false}},
	}},
	{tagsRoute, "/api/v1/console/timeseries/cpu/tags", "", 404, failure},
	{seriesRoute, cpuPath + "/series?namespace=shop&tags=host=web-02", "", 200,
		items{fields{"tags": items{tagOf("host", "web-02"), tagOf("region", "eu")}}}},
	{seriesRoute, cpuPath + "/series?namespace=shop&limit=2", "", 200, items{fields{"tags": list{anyTag}}, fields{"tags": list{anyTag}}}},
	{seriesRoute, cpuPath + "/series?namespace=shop&tags=host=nosuch", "", 200, none},
	{seriesRoute, cpuPath + "/series?namespace=shop&limit=0", "", 400, failure},
	{seriesRoute, cpuPath + "/series?namespace=shop&limit=1001", "", 400, failure},
	{seriesRoute, cpuPath + "/series?namespace=shop&after=x", "", 400, failure},

	{linesRoute, "/api/v1/console/timeseries/write?namespace=lines&precision=s",
		"m,t=v f=1 1700000000\nm f= 5\n# no line\nm f=2 1700000001\n", 200, fields{"refused": is{1}, "strings": is{0},
			"written": is{2}, "errors": items{fields{"line": is{2}, "error": text}},
		}},
	{linesRoute, "/api/v1/console/timeseries/write?namespace=lines", "m f=3 1700000002000", 200,
		fields{"refused": is{0}, "strings": is{0}, "written": is{1}, "errors": none}},
	{"POST /api/v1/timeseries/write", "/api/v1/timeseries/write?namespace=lines", "m f=3 1700000002000", 200,
		fields{"written": is{1}, "refused": is{0}, "strings": is{0}, "errors": items{}}},
	{linesRoute, "/api/v1/console/timeseries/write?namespace=lines", "", 200,
		fields{"refused": is{0}, "strings": is{0}, "written": is{0}, "errors": none}},
	{linesRoute, "/api/v1/console/timeseries/write?precision=m", "m f=3", 400, failure},
	{linesRoute, "/api/v1/console/timeseries/write?precison=s", "m f=3", 400, failure},
	{linesRoute, "/api/v1/console/timeseries/write?namespace=_floe", "m f=3", 400, failure},
	{dataRoute, "/api/v1/timeseries/m/data?namespace=lines", "", 200, fields{"measurement": is{"m"}, "field": is{"f"},
		"series": pointsOf("1700000000000=1", "1700000001000=2", "1700000002000=3")}},

	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines", "", 400, failure}, // a range without bounds
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines&tags=t=v", "", 400, failure},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines&from=1700000001000&to=1700000001000", "", 400, failure},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines&from=2&to=1", "", 400, failure},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines&from=-1h", "", 400, failure},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines&from=1&tag=t=v", "", 400, failure},
	{deleteRangeRoute, "/api/v1/timeseries/m?from=1", "", 404, failure},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines&to=1700000002000&tags=t=v", "", 200,
		fields{"ok": is{true}, "measurement": is{"m"}, "series": is{1}}},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=lines&from=1700000002000", "", 200,
		fields{"ok": is{true}, "measurement": is{"m"}, "series": integer}},
	{dataRoute, "/api/v1/timeseries/m/data?namespace=lines&field=f", "", 200,
		fields{"measurement": is{"m"}, "field": is{"f"}, "series": pointsOf("1700000001000=2")}},

	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines",
		`{"raw_ttl_ms":9000000000000,"downsample":[{"every_ms":60000},{"every_ms":3600000,"ttl_ms":7200000}]}`, 200,
		fields{"ok": is{true}, "measurement": is{"m"}}},
	{retentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", "", 200, fields{"measurement": is{"m"},
		"raw_ttl_ms": number("9000000000000"), "downsample": items{fields{"every_ms": is{60000}, "ttl_ms": is{0}},
			fields{"every_ms": is{3600000}, "ttl_ms": is{7200000}}}}},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":0}`, 200,
		fields{"ok": is{true}, "measurement": is{"m"}}},
	{retentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", "", 200,
		fields{"measurement": is{"m"}, "raw_ttl_ms": is{0}, "downsample": none}},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":1000,"downsample":[` +
		strings.Join(rollupsOf(ts.MaxTiers), ",") + `]}`, 200, fields{"ok": is{true}, "measurement": is{"m"}}},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":1000,"downsample":[` +
		strings.Join(rollupsOf(ts.MaxTiers+1), ",") + `]}`, 400, failure},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", "{}", 400, failure},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":999}`, 400, failure},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":-1}`, 400, failure},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":9223372036855}`, 400, failure},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":0,"downsample":[{"ttl_ms":1}]}`, 400, failure},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=lines", `{"raw_ttl_ms":0,"downsample":[{"every_ms":1}]}`, 400, failure},
	{setRetentionRoute, "/api/v1/timeseries/m/retention?namespace=_floe", `{"raw_ttl_ms":0}`, 400, failure},
	{retentionRoute, "/api/v1/timeseries/m/retention", "", 404, failure},
	{setRetentionRoute, "/api/v1/timeseries/later/retention?namespace=lines", `{"raw_ttl_ms":60000}`, 200,
		fields{"ok": is{true}, "measurement": is{"later"}}},
	{retentionRoute, "/api/v1/timeseries/later/retention?namespace=lines", "", 200,
		fields{"measurement": is{"later"}, "raw_ttl_ms": is{60000}, "downsample": none}},

	{linesRoute, "/api/v1/console/timeseries/write?namespace=gone", "m,t=a f=1 1700000000000\nm,t=b f=2 1700000000000", 200,
		fields{"refused": is{0}, "strings": is{0}, "written": is{2}, "errors": none}},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=gone&force=false", "", 400, failure},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=gone&force=true&tags=t=a", "", 200,
		fields{"ok": is{true}, "measurement": is{"m"}, "series": is{1}}},
	{dataRoute, "/api/v1/timeseries/m/data?namespace=gone", "", 200,
		fields{"measurement": is{"m"}, "field": is{"f"}, "series": pointsOf("1700000000000=2")}},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=gone&force", "", 200,
		fields{"ok": is{true}, "measurement": is{"m"}, "series": is{1}}},
	{deleteRangeRoute, "/api/v1/timeseries/m?namespace=gone&force", "", 404, failure},
}

// rollupsOf is n rollups in JSON.
func rollupsOf(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`{"every_ms":%d}`, (i+1)*1000))
	}
	return all
}

// TestQueryMethods: only GET and POST evaluate queries.
func TestQueryMethods(t *testing.T) {
	base := serve(t, New(openNode(t), Options{}))
	if got := send(t, "DELETE "+base+floqlPath, ""); got.status != 405 || !strings.Contains(got.header.Get("Allow"), "GET") {
		t.Errorf("DELETE: status %d, Allow: %q", got.status, got.header.Get("Allow"))
	}
}

// TestDataInParts follows the links of an answer that was cut, and reduces the same points to the
// width of a chart.
func TestDataInParts(t *testing.T) {
	node := openNode(t)
	var points []ts.Point
	const n = 25_000
	for i := range n {
		v := float64(i % 1000)
		if i == 12_345 {
			v = 1e9
		}
		// Two hosts at each time, days apart at the end.
		at := int64(1_600_000_000_000) + int64(i/2)*1000 + int64(i/20_000)*30*24*3600*1000
		points = append(points, ts.Point{Measurement: "m", Tags: map[string]string{"host": fmt.Sprint(i % 2)},
			Fields: map[string]float64{"f": v}, Time: time.UnixMilli(at)})
	}
	if result, err := node.TS("default").Write(t.Context(), points...); err != nil || result.Written != n {
		t.Fatalf("Write = %+v, %v", result.Written, err)
	}
	base := serve(t, New(node, Options{}))
	var all []dataPoint
	pages := 0
	for next := "/api/v1/timeseries/m/data?field=f"; next != ""; pages++ {
		got := send(t, "GET "+base+next, "")
		var d measurementData
		if err := json.Unmarshal(got.body, &d); err != nil || got.status != 200 {
			t.Fatalf("status %d, %v", got.status, err)
		}
		all = append(all, d.Series...)
		next = ""
		if link := got.header.Get("Link"); link != "" {
			next = "/api/v1/timeseries/m/data" + strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		}
	}
	if len(all) != n || pages != 3 || !slices.IsSortedFunc(all, byTime) {
		t.Errorf("%d points on %d pages, want %d on 3, in order: %t", len(all), pages, n, slices.IsSortedFunc(all, byTime))
	}
	var d measurementData
	got := send(t, "GET "+base+"/api/v1/timeseries/m/data?field=f&max_points=100", "")
	if err := json.Unmarshal(got.body, &d); err != nil {
		t.Fatal(err)
	}
	peak := slices.ContainsFunc(d.Series, func(p dataPoint) bool { return p.Value == 1e9 })
	if len(d.Series) > 100 || len(d.Series) < 4 || !peak || !slices.IsSortedFunc(d.Series, byTime) {
		t.Errorf("%d points, the greatest is there: %t", len(d.Series), peak)
	}
}

// TestWritePoints: points are written as JSON too; refused ones are listed by their position.
func TestWritePoints(t *testing.T) {
	base := serve(t, New(openNode(t), Options{})) + "/api/v1/timeseries"
	for _, c := range []struct {
		query, body string
		status      int
		answer      string
	}{
		{"", `{"points":[{"measurement":"m","tags":{"t":"v"},"fields":{"f":1.5,"g":2},"time_ms":1700000000000},{"measurement":"m","fields":{"f":3}}]}`,
			200, `{"written":2,"refused":0,"strings":0,"errors":[]}`},
		{"", `{"points":[{"measurement":"m","fields":{"f":1},"time_ms":1700000001000},{"measurement":"","fields":{"f":1}},{"measurement":"m","fields":{}}]}`,
			200, `"written":1,"refused":2,"strings":0,"errors":[{"line":2,`},
		{"", `{"points":[{"measurement":"m","fields":{}}]}`, 400, "all 1 points were refused: point 1: ts: point without fields"},
		{"", `{"points":[{"measurement":"m","fields":{"f":"x"}}]}`, 400, `\"f\" is repeated or not a number`},
		{"", `{"points":[{"measurement":"m","fields":{"f":1,"f":2}}]}`, 400, `\"f\" is repeated or not a number`},
		{"", `{"points":[{"measurement":"m","fields":[1]}]}`, 400, "want an object of numbers"},
		{"", `{"points":[]}`, 400, "points"},
		{"", `{"points":[{"measurement":"m","fields":{"f":1},"time_ms":-281474976710656}]}`, 400, "-281474976710656"},
		{"", `{"points":[{"measurement":"m","tags":{"":"x"},"fields":{"f":1}}]}`, 400, "a name is empty"},
		{"?precision=s", `{"points":[{"measurement":"m","fields":{"f":1}}]}`, 400, "precision is for line protocol"},
	} {
		got := send(t, "POST "+base+"/write"+c.query, c.body, "Content-Type", "application/json")
		if got.status != c.status || !strings.Contains(string(got.body), c.answer) {
			t.Errorf("%s: %v, want %d %s", c.body, got, c.status, c.answer)
		}
	}
	got := send(t, "GET "+base+"/m/data?field=f&to=1700000002000", "")
	if want := `"series":[{"timestamp":1700000000000,"value":1.5},{"timestamp":1700000001000,"value":1}]`; !strings.Contains(string(got.body), want) {
		t.Errorf("data: %v, want %s", got, want)
	}
}

// TestWriteEncoded: bodies come as gzip too, within the limit of a body when they are decoded;
// other encodings, and bodies of which no line is taken, are refused.
func TestWriteEncoded(t *testing.T) {
	base := serve(t, New(openNode(t), Options{MaxBodyBytes: 4096}))
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(text))
		z.Close()
		return b.String()
	}
	for _, c := range []struct {
		encoding, body string
		status         int
		answer         string
	}{
		{"gzip", zip("m f=1 1700000000000\nm f= 2\n"), 200, `"written":1,"refused":1`},
		{"identity", "m f=1 1700000000000", 200, `"written":1,"refused":0`},
		{"gzip", zip(strings.Repeat("# no line\n", 1000)), 413, "4096"},
		{"gzip", "m f=1", 400, "gzip"},
		{"gzip", zip("m f=1")[:15], 400, "gzip"},
		{"br", "m f=1", 415, "br"},
		{"", "m f= 1\nm,t= f=1", 400, "line 2"},
	} {
		r, err := http.NewRequest("POST", base+"/api/v1/console/timeseries/write", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(got.Body)
		got.Body.Close()
		if got.StatusCode != c.status || !strings.Contains(string(answer), c.answer) {
			t.Errorf("%s %.20q: status %d, %s, want %d with %q", c.encoding, c.body, got.StatusCode, answer, c.status, c.answer)
		}
	}
}
