// Package meter counts what happens on the busiest paths of a node, with a few atomic additions for
// each call.
package meter
