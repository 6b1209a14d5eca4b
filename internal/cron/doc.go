// Package cron says when a schedule comes due: at the times of a cron expression in a time zone, or
// every so often. It decides nothing else: who runs what, and whether a run of before is in the
// way, is up to the machine that has the schedule.
//
// None of it belongs into Apply, as what a time zone says depends on the machine: a duty computes
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
// # Clocks that are put forward or back
//
// An expression that leaves no hour out follows real time: it is due at each instant at which the
// clocks of its zone show a time that matches, so "*/15 * * * *" comes each quarter of an hour in
// the night of a change too. Any other names times of a day, and each of them comes once: a time
// that clocks skip at the first instant after the gap (several such times together, once), a time
// that they show twice when they show it first.
package cron
