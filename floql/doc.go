// Package floql implements FloQL, a query language for time series. A query is a source, and stages
// that its points pass through.
//
//	cpu{host=~web-*}[6h] | window(5m) | group_by(region) | avg()
//	requests[1d] | rate(1m) | sum() | window(1h) | max()
//	disk_used[now-7d..now] | window(1d, tz=Europe/Berlin) | group_by(*) | last() | join(/, (disk_total | window(1d, tz=Europe/Berlin) | group_by(*) | last()))
//
// The package is independent of storage: a query reads a Source, an interface of one method, or a
// Slice of points in memory.
//
//	var points floql.Slice
//	err := points.Add("cpu", map[string]string{"host": "a"}, "usage", time.Now().UnixMilli(), 0.25)
//	result, err := floql.Eval(ctx, &points, "cpu[1h] | window(5m) | avg()", floql.Options{})
//	for _, s := range result.Series {
//		fmt.Println(s.Key, s.Field, s.Tags, s.Points)
//	}
//
// A node queries its own time series the same way; see floe.Node.FloQL.
//
// # Sources
//
// A source is a measurement, tag filters in braces, and a range in brackets; the default range is
// the last hour. A filter constrains only the tags that it names. = and != compare values; =~ and
// !~ match globs with *, ?, [a-z] and {a,b}. A series without a tag has the empty value for it, so
// host!=a matches it, and host="" matches only such series. A range is a duration up to now, or two
// times, the second excluded: [30m], [now-2h..now-1h], [1714521600000..now],
// [2024-05-01T00:00:00Z..2024-06-01T00:00:00Z]. now is the same everywhere in a query. A relative
// start is rounded down to the first window, so that the first bucket is complete. Sliding windows
// start with the first that begins within the range.
//
// # Stages
//
// The source yields one series for each field of each tag set. Point-wise stages (where, math,
// delta, cumsum, ...) keep series apart. Aggregations (avg, sum, count, min, max, first, last,
// median, percentile, stddev, spread) combine the points of a field that lie in a bucket, over all
// series or over those with equal tags (group_by). window defines the buckets; without it the whole
// range is one bucket. The time of a bucket's point is the start of the bucket. Buckets and
// grouping also apply to the next aggregation, so rate(1m) | sum() sums by the minute. Stages lists
// all stages.
//
// A plain sum of a gauge over hosts grows with the window, because it adds every point, and a plain
// avg weights each host by its number of points. To avoid that, take the mean of each series first:
//
//	memory[6h] | window(1m) | group_by(*) | avg() | group_by(region) | sum()
//
// join combines the points of two queries at equal times, for series with equal tags. A nested
// query without a range uses that of the outer query.
//
// # Exactness
//
// Sums are exact and rounded once, avg is the sum divided by the count, and stddev (of a sample) is
// computed from exact sums. Results therefore depend neither on the order of points nor on the
// number of shards. rate and increase use the point before the range if there is one within the
// window or an hour. They treat a value below the previous one as a counter reset, and do not
// extrapolate. rate divides by the part of the bucket that the points cover, starting with the
// first point of the series. A result that is not finite, such as an overflowing sum or a division
// by 0, is dropped, and fill treats its bucket as empty. Windows of days, weeks, months and years
// with tz= follow the calendar of that zone, with days of 23 and 25 hours.
//
// # Limits
//
// Limits bound the points and series read, the points of the result, memory and time. Exceeding one
// causes a *LimitError that names it. Only series with points in the range count. A mistake in a
// query is an *Error, with its position.
//
// Stages that process the points of a series one by one may take up to 2,000,000 steps per point,
// mostly instructions of patterns times bytes of tags. The patterns of an expression have up to
// 10,000 instructions, and those of a query up to 50,000. A glob has up to 1,024 alternatives with
// 64 KiB in total; those with a * may have 8 KiB. A query has up to 100 stages, and up to
// 1,000 with its nested queries.
package floql
