// Package cron computes when a schedule comes due: at the times of a cron expression in a time
// zone, or at a fixed interval. It decides nothing else. The machine that owns the schedule decides
// who runs what, and whether a previous run is in the way.
//
// None of it may run inside Apply, because time zone data depends on the machine. A duty computes
// times, and a command carries them.
//
// # Expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with seconds in front, or
// @yearly, @monthly, @weekly, @daily, @hourly, @every <duration>. A field is a list of *, n, n-m,
// with /step; months and weekdays have names, Sunday is 0 and 7, and ranges may wrap (FRI-MON). The
// last day of a month is L, n days before it L-n; the second Monday is MON#2, the last one MON#L.
// When day of month and day of week are both restricted (neither begins with *, or has a step), a
// day needs to match one of them, as in crontab(5) and Kubernetes.
//
// # Clock changes
//
// An expression that restricts no hour follows real time. It is due at each instant at which the
// clocks of its zone show a matching time, so "*/15 * * * *" comes each quarter of an hour in the
// night of a change too. Any other expression names times of a day, and each of them comes once. A
// skipped time comes at the first instant after the gap (several such times together, once). A
// repeated time comes when the clocks show it first.
package cron
