// Package line reads the line protocol of InfluxDB
// (docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol):
//
//	measurement,tag=value,tag=value field=1.5,other=7i,flag=t,text="a \"b\"" 1700000000000000000
//
// A Scanner reads lines from an io.Reader in bounded memory, and makes no garbage for those that
// are in order. What stands before the fields is handed over as it is, because a caller that sees
// the same series again and again finds it by these bytes; ParseSeries reads it when it is a new
// one.
//
// A backslash takes the meaning from a comma, a space or a backslash behind it, in names of tags
// and fields and in values of tags from an equals sign too, and in strings from a quote; before
// anything else it is itself. Strings may hold line feeds. Blank lines, and those that begin with
// #, are passed over.
package line
