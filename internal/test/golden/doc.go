// Package golden holds test data of every released layout: a log of all commands, and a data
// directory. Every later build must read them as the build that wrote them did.
package golden
