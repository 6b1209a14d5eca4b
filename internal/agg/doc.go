// Package agg aggregates columns of points into time buckets. Results are exact and can be computed
// in parts and merged.
//
// A Table has one state for each group and pane. A shard fills and encodes it, and the node that
// runs the query merges the parts. Neither the distribution of points over parts nor the order of
// merging changes a bit of the result of Finish. There are three reasons:
//
//   - Sums are exact (Sum, wide): every bit of every value is kept, and the sum is rounded once.
//     The average is the rounded sum divided by the count. The standard deviation comes from the
//     exact sums of values and squares, and is rounded once.
//   - Comparisons (min, max, first, last) use a total order: -0 is below 0, and of two points at
//     the same time, the one with the greater series key counts.
//   - Percentiles keep all values, within the byte budget of the Table.
//
// Panes are the smallest units of time in a window. For tumbling windows they are the buckets; for
// sliding windows they are the pieces between all edges. They are defined by a step and an origin,
// or by explicit bounds (Calendar), so that adding points needs no time zone.
//
// Rates and increases (Pre) need the points of a series in order. They are computed while points
// are added, with a few numbers per series, and their value in each pane is aggregated and merged.
// Therefore all points of a series must be added to the same Table.
package agg
