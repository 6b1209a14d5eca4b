// Package overlayfs is a file system in memory over another one that is only read, so that a data
// directory can be verified as if it were opened.
package overlayfs
