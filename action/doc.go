// Package action is floe's actions: functions that workers carry out, with retries, time limits, priorities and limits.
package action
