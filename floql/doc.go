// Package floql is a query language for time series: a measurement, and stages that its points go through.
package floql
