// Package cron computes when a schedule is due: at the times of a cron expression in a time zone,
// or at a fixed interval. The machine that owns the schedule decides what to run, and whether a
// previous run prevents it.
//
// It must not be used in Apply, because time zone data depends on the machine. A duty computes
// times, and a command carries them.
//
// # Expressions
//
// An expression has five fields (minute, hour, day of month, month, day of week), or six with
// seconds first, or is one of @yearly, @monthly, @weekly, @daily, @hourly and @every <duration>. A
// field is a list of *, n and n-m, each optionally with /step. Months and weekdays have names,
// Sunday is 0 and 7, and ranges may wrap (FRI-MON). L is the last day of a month, and L-n the day n
// days before it. MON#2 is the second Monday, and MON#L the last one. When day of month and day of
// week are both restricted (neither begins with *, or has a step), a day needs to match one of
// them, as in crontab(5) and Kubernetes.
//
// # Clock changes
//
// An expression that restricts no hour follows real time. It is due at each instant at which the
// clocks of its zone show a matching time, so "*/15 * * * *" is due every quarter of an hour even
// in the night of a change. Any other expression names times of a day, and each of them is due
// once. A skipped time is due at the first instant after the gap; several skipped times are due
// together, once. A repeated time is due when the clocks show it first.
package cron
