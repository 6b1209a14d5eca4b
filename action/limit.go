package action

// Limits and defaults.
const (
	MaxPriority       = 255
	DefaultPriority   = 100
	MaxKeyBytes       = 255      // of concurrency and idempotency keys
	MaxLabelBytes     = 1024     // of labels, names and values together
	MaxTextBytes      = 1024     // of owner, description and source
	MaxOutcomeBytes   = 255      // of outcomes and codes
	MaxErrorBytes     = 16 << 10 // of the message of an error; what is longer is cut
	MaxReasonBytes    = 1024
	MaxAttemptsLimit  = 1_000_001 // of MaxAttempts: the first one and a million retries
	MaxRetainedRuns   = 100_000_000
	MaxRunningLimit   = 1_000_000
	MaxRateLimit      = 1_000_000
	MaxLabelSets      = maxSets // different sets of labels that runs of one action ask for
	maxRatePer        = 366 * 24 * 3600 * 1000
	handoverMillis    = 10_000           // how long an ended run is kept, however few its action keeps, when somebody waits for its end
	idempotencyMillis = 24 * 3600 * 1000 // how long an idempotency key is remembered, at least
	leaseMillis       = 30_000           // how long a process may be silent
	// that is less where duties are in a hurry, but not too little for what processes have to do
	// meanwhile
	leastLease = 3_000
	// how much later than it meant to the duty of sessions looks at them if the node has stood
	// still; a busy one is not so late
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
	rateSlackMillis   = 10      // what is taken late catches up by: takes come when they come, and the log counts in milliseconds
)

var defaultSpec = spec{
	timeout: defaultTimeout, maxRetries: defaultRetries, backoffMin: defaultBackoffMin, backoffMax: defaultBackoffMax,
	retainFor: defaultRetainFor, retainRuns: defaultRetainRuns,
}
