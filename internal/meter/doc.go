// Package meter counts events on the busiest paths of a node, with a few atomic additions per call.
package meter
