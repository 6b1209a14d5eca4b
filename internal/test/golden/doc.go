// Package golden holds test data of every released layout: a log of all commands, and a data
// directory, which every later build has to read as the build that wrote them did.
package golden
