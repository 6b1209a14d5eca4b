package dashboard

import "github.com/floedb/floe"

var healthContract = []contractRow{
	{"GET /health", "/health", "", 200, fields{"status": is{"ok"}}},
	{"GET /health", "/health?probe=7", "", 200, fields{"status": is{"ok"}}},
}

var clusterContract = []contractRow{
	{"GET /api/v1/cluster/stats", "/api/v1/cluster/stats", "", 200, fields{
		"rps": integer, "active_connections": integer, "uptime": is{"0d 0h 0m"}, "version": is{floe.Version}, "num_shards": is{4},
		"commands_total": integer, "bytes_received": integer, "bytes_sent": integer, "subscriptions": is{0},
		"nodes": list{fields{"id": text, "status": is{"healthy"}, "role": is{"active"}}},
	}},
	{"GET /api/v1/cluster/stats", "/api/v1/cluster/stats?a=1;b=2", "", 400, failure},
	{"GET /api/v1/metrics", "/api/v1/metrics?namespace=a&namespace=b", "", 400, failure},
	{"GET /api/v1/metrics", "/api/v1/metrics?namespace=%00", "", 400, failure},
	{"GET /api/v1/metrics", "/api/v1/metrics?namespace=shop&unknown=1", "", 200, fields{
		"server": fields{
			"connections": integer, "subscriptions": integer, "commands_total": integer, "bytes_received": integer, "bytes_sent": integer,
			"uptime_seconds": integer,
		},
		"streams": is{5}, "queues": is{2}, "kv_namespaces": is{2},
		"workflows": fields{
			"active_runs": is{1}, "started_total": is{3}, "completed_total": is{1}, "failed_total": is{1}, "cancelled_total": is{0},
			"timed_out_total":         is{0},
			"signals_delivered_total": is{3}, "timers_fired_total": is{0}, "steps_executed_total": is{3}, "active_schedules": is{0},
		},
	}},
}
