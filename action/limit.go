package action

// Limits and defaults.
const (
	MaxPriority       = 255
	DefaultPriority   = 100
	MaxKeyBytes       = 255      // of concurrency and idempotency keys
	MaxLabelBytes     = 1024     // of labels, names and values in total
	MaxTextBytes      = 1024     // of owner, description and source
	MaxOutcomeBytes   = 255      // of outcomes and codes
	MaxErrorBytes     = 16 << 10 // of an error message; longer ones are truncated
	MaxReasonBytes    = 1024
	MaxAttemptsLimit  = 1_000_001 // of MaxAttempts: the first one and a million retries
	MaxRetainedRuns   = 100_000_000
	MaxRunningLimit   = 1_000_000
	MaxRateLimit      = 1_000_000
	MaxLabelSets      = maxSets // different sets of labels that the runs of one action require
	maxRatePer        = 366 * 24 * 3600 * 1000
	handoverMillis    = 10_000           // minimum retention of an ended run whose end is awaited, regardless of the action's retention
	idempotencyMillis = 24 * 3600 * 1000 // minimum retention of an idempotency key
	leaseMillis       = 30_000           // how long a process may be silent
	// the minimum lease, for shards whose duties run more often
	leastLease = 3_000
	// if the duty of sessions checks them this much later than planned, the node was suspended;
	// load alone does not cause such a delay
	haltMillis        = 3_000
	defaultTimeout    = 30_000
	defaultRetries    = 3
	defaultBackoffMin = 1000
	defaultBackoffMax = 5 * 60 * 1000
	defaultRetainFor  = 7 * 24 * 3600 * 1000
	defaultRetainRuns = 10_000
	microsPerMilli    = 1000
	maxLatencySample  = 1024
	maxRateMicros     = 1 << 60 // of a burst at its rate
	rateSlackMillis   = 10      // late takes may catch up by this much: takes are irregular, and the log counts in milliseconds
)

var defaultSpec = spec{
	timeout: defaultTimeout, maxRetries: defaultRetries, backoffMin: defaultBackoffMin, backoffMax: defaultBackoffMax,
	retainFor: defaultRetainFor, retainRuns: defaultRetainRuns,
}
