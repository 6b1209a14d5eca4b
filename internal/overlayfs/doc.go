// Package overlayfs is an in-memory file system over a read-only one, so that a data directory can
// be verified as if it were opened.
package overlayfs
