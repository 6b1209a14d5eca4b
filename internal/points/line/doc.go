// Package line reads the line protocol of InfluxDB
// (docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol):
//
//	measurement,tag=value,tag=value field=1.5,other=7i,flag=t,text="a \"b\"" 1700000000000000000
//
// A Scanner reads lines from an io.Reader in bounded memory, and does not allocate for valid lines.
// The part before the fields is returned unparsed, so that a caller can look up a known series by
// these bytes. ParseSeries parses it when the series is new.
//
// A backslash escapes a following comma, space or backslash. In names of tags and fields and in tag
// values it also escapes an equals sign, and in strings a quote. Before anything else it is
// literal. Strings may contain line feeds. Blank lines, and lines that begin with #, are skipped.
package line
