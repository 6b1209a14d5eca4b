// Package floqltest runs the test language of FloQL: text files that load points, evaluate queries
// and state the expected results. The files in testdata are the language reference by example;
// every source must agree with them.
//
//	# Text behind a # that begins a line is a comment.
//	clear                                      forgets all points and settings
//	load
//	  cpu,host=a,region=eu usage=1.5 0         line protocol without escapes: measurement,tags fields timestamp
//	  cpu,host=a usage=0:2:10 0 10s            value, difference and count: 0, 2, .. 18, at 0, 10s, ..
//	now 1h                                     what now means: ms, a duration since the epoch, or RFC 3339
//	limit points 100                           a limit of the queries that follow
//
//	eval cpu[0..100000] | avg()                a query, up to the end of the line; further lines, if they are indented more than those of expect, go on
//	  cpu.usage{host=a}: 0=1.5 10s=2           expect: key.field{tags}: time=value ..., sorted as in the result; null is a value
//	  nothing                                  expect no series
//	  hint text                                expect a hint that contains the text
//	  error text                               expect an error whose message contains the text
//
// Times of expected points are written as those of load. Values are compared to the last bit.
package floqltest
