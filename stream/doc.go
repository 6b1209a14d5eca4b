// Package stream is floe's append-only streams with consumer groups.
package stream
