// Package agg aggregates columns of points into buckets of time, exactly, in parts that can be
// merged.
//
// A Table has one state for each group and pane. It is filled by a shard, encoded, and merged by
// whoever asked; which points went into which part, and in which order the parts are merged,
// changes no bit of what Finish returns. That rests on three things:
//
//   - Sums are exact (Sum, wide): every bit of every value is kept, and the sum is rounded once.
//     The average is the rounded sum divided by the count. The standard deviation comes from the
//     exact sums of values and squares, and is rounded once.
//   - What only compares (min, max, first, last) has a total order: -0 is below 0, and of two
//     points at one time the one of the greater series key counts.
//   - Percentiles keep all values, under the byte budget of the Table.
//
// Panes are the smallest parts of time that a window consists of: for tumbling windows its buckets,
// for sliding ones the pieces between all their edges. They are a step and an origin, or explicit
// bounds (Calendar), so that nobody who adds points looks at a time zone.
//
// Rates and increases (Pre) need the points of one series in order. They are computed while points
// are added, by a few numbers for each series, and what is aggregated and merged is their value in
// each pane. Therefore all points of a series have to be added to one Table.
package agg
