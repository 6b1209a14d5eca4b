// Package cli is the command line of floe. Every primitive has a file with its commands; commands
// is the table of them.
//
// Results go to stdout, everything else to stderr. The exit code is 0 if the command did what it
// was asked, 2 if it was not understood, and else says what kind of failure it was, see exitCodes.
package cli
