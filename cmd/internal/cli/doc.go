// Package cli is the command line of floe. Each primitive has a file with its commands; commands is
// the table of them.
//
// Results go to stdout, everything else to stderr. The exit code is 0 on success and 2 for invalid
// arguments. Other codes give the kind of failure, see exitCodes.
package cli
