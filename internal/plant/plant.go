// Package plant holds switches for bugs that are planted on purpose: a checker that has never failed proves nothing. Without
// the build tag "plant" every switch is the constant false, and what it would turn on is not in the program.
//
//	go test -tags plant ./internal/sim -run '^TestPlanted$'
package plant

// BuildFlags are those of go build for a program that a test runs. What was compiled for the test serves the program too.
func BuildFlags() []string {
	if Built {
		return []string{"-tags", "plant"}
	}
	return nil
}

// Bug names a planted bug, by what the code does wrong.
type Bug string

// The bugs in the log and in how it is written.
const (
	AckBeforeSync   Bug = "ack-before-sync"  // appends are answered before they are synced
	VoteUnsynced    Bug = "vote-unsynced"    // term and vote are answered before they are synced
	DirUnsynced     Bug = "dir-unsynced"     // the directory is not synced when a segment has been created
	TruncateTooFar  Bug = "truncate-too-far" // the log is truncated up to what is applied, durable or not
	ReviseRevisions Bug = "revise-revisions" // revisions of a lost tail are given out again
	InstallSilently Bug = "install-silently" // the log may have lost its end, for all one can tell after a crash
	KeepOldRows     Bug = "keep-old-rows"    // a snapshot is added to the rows that it should replace
	ReadUnasked     Bug = "read-unasked"     // a leader answers reads without asking whether it still leads
	ReadEarly       Bug = "read-early"       // a read is answered before what it has to see is applied
)

// The bugs in the engine.
const (
	DeliverTwice  Bug = "deliver-twice"  // a delivery that was applied is applied again
	ForgetMore    Bug = "forget-more"    // messages behind the delivered ones are forgotten with them
	ReplyLost     Bug = "reply-lost"     // nobody is told what became of a message
	ReplyTwice    Bug = "reply-twice"    // the sender of a message is told twice
	LaneBlocks    Bug = "lane-blocks"    // while one lane is held, all are
	LoseOutbox    Bug = "lose-outbox"    // a restart forgets that messages wait
	LoseTimers    Bug = "lose-timers"    // a restart forgets the earliest timer
	MapOrder      Bug = "map-order"      // rows are written in the order of a map
	AppliedLate   Bug = "applied-late"   // the state does not say that it holds the newest entry
	HalfTxn       Bug = "half-txn"       // a transaction that is refused keeps what it has done before
	CountRefused  Bug = "count-refused"  // what a refused command counted is counted with the next one
	CountUndone   Bug = "count-undone"   // going back to a savepoint leaves what was counted since
	FollowRefused Bug = "follow-refused" // a follow-up that is refused does not refuse the command
	UnfencedDuty  Bug = "unfenced-duty"  // what a duty proposes is carried out in whatever term

	KeepRemembered Bug = "keep-remembered" // what a refused command has changed in memory stays changed

	EndlessEntry   Bug = "endless-entry"   // nothing bounds what the commands of an entry write together
	EndlessFire    Bug = "endless-fire"    // a Fire goes on however much it has written
	UncountedParts Bug = "uncounted-parts" // what an operation of a transaction writes is not counted with the others
)

// The bugs in the key-value store.
const (
	AnyRevision   Bug = "any-revision"   // the condition on a revision holds for every one
	MissedChange  Bug = "missed-change"  // watchers are not told of the first of several changes
	EternalExpiry Bug = "eternal-expiry" // a key gets no timer when its expiry is changed
	LostVersion   Bug = "lost-version"   // an overwritten version does not get into the history
)

// The bugs in actions: what is given to workers, and what they may end.
const (
	KeylessFirst  Bug = "keyless-first"  // runs without a concurrency key keep their turn
	CancelFrees   Bug = "cancel-frees"   // a cancelled run gives its slots back before its handler has returned
	RetryUnrated  Bug = "retry-unrated"  // attempts after the first one do not count for the rate
	ReleaseCounts Bug = "release-counts" // an attempt that is given back counts
	AnyAttempt    Bug = "any-attempt"    // what is said of an earlier attempt is good for the present one
	LaneForgotten Bug = "lane-forgotten" // a key whose slot is free again has no turn
	DelayForgets  Bug = "delay-forgets"  // the action has no timer for when a run has to be begun
	EternalRun    Bug = "eternal-run"    // the session has no timer for when an attempt is out of time
)

// The bugs in the sessions of workers' processes, and in their list.
const (
	SilentForever Bug = "silent-forever" // a session that is silent does not end
	LostUncounted Bug = "lost-uncounted" // the attempts of a session that has ended are given back
	CensusIgnored Bug = "census-ignored" // what a session has and its process does not know of stays with it
	CancelUntold  Bug = "cancel-untold"  // the process does not hear of runs that are cancelled
	CountsAnew    Bug = "counts-anew"    // the counts of a worker that comes back begin anew
)

// The bugs in the loops that take something and settle it.
const (
	AckFailed     Bug = "ack-failed"     // a message whose handler has failed is acked
	AckFailedToo  Bug = "ack-failed-too" // a record whose handler has failed is acknowledged
	UpdateBlindly Bug = "update-blindly" // an update writes whatever was written meanwhile
	LockUnrenewed Bug = "lock-unrenewed" // a lock is not renewed while its function runs
)

// The bugs in schedules.
const (
	TickTwice      Bug = "tick-twice"       // a tick comes although it is decided
	TickLost       Bug = "tick-lost"        // ticks for which a command has no room are taken for decided
	CatchUpIgnored Bug = "catch-up-ignored" // whatever was missed is caught up
	BufferedLost   Bug = "buffered-lost"    // a tick that waits for a run to end waits for ever
)

// The bugs in queues.
const (
	AnyReceipt   Bug = "any-receipt"   // the receipt of an earlier delivery is good for the present one
	EternalLease Bug = "eternal-lease" // the queue has no timer for when a lease ends
	KeepTaken    Bug = "keep-taken"    // what a refused transaction has taken is not remembered as ready again
)

// The bugs in takes, and in consumer groups.
const (
	SpokenForever   Bug = "spoken-forever"    // what a take may take stays spoken for when it has ended
	ReadWhileEnding Bug = "read-while-ending" // records are delivered while older ones are being taken back
	SeekKeepsDue    Bug = "seek-keeps-due"    // a group that has moved remembers what was due
	ExcuseExpelled  Bug = "excuse-expelled"   // a delivery to one who was silent for too long does not count
	MissNobody      Bug = "miss-nobody"       // the leader does not notice that one who waited is gone
	ForgetAnnounced Bug = "forget-announced"  // that a record is ready again is not noted in the group's row
	UnboundedExpire Bug = "unbounded-expire"  // all that is due is done by one command
)

// The bugs in time series.
const (
	SealUnfenced        Bug = "seal-unfenced"        // blocks are sealed whatever was sealed before
	SealDropsNewest     Bug = "seal-drops-newest"    // the newest of the blocks that are sealed gets lost
	GenerationsReversed Bug = "generations-reversed" // what was sealed earlier replaces what was sealed later
	AnyFingerprint      Bug = "any-fingerprint"      // numbers of series are good for whatever series have them
	LateUnmarked        Bug = "late-unmarked"        // the buckets of a late point are not computed anew
	SealDeleted         Bug = "seal-deleted"         // points of deleted series are sealed with the others
	DeletionForgotten   Bug = "deletion-forgotten"   // a deletion is forgotten while blocks have points of the series
	RetireUnseen        Bug = "retire-unseen"        // series leave that somebody has written to meanwhile
	RestLost            Bug = "rest-lost"            // a merge loses the points of a page that are behind its end
	ReadExpired         Bug = "read-expired"         // points are read that are too old and have not been removed yet
	PartialAnswer       Bug = "partial-answer"       // a query leaves out points of which nothing is left
	RewriteUnfenced     Bug = "rewrite-unfenced"     // pages are replaced whatever has become of them
	RoomUnchecked       Bug = "room-unchecked"       // series are made beyond the limit
)

// The bugs in the loop of workers.
const (
	NeverRenew    Bug = "never-renew"    // leases are not renewed while handlers run
	SettleLost    Bug = "settle-lost"    // what is lost is settled all the same
	TakeDraining  Bug = "take-draining"  // what is taken while the loop ends is run
	PanicUncaught Bug = "panic-uncaught" // a handler's panic is nobody's
	LaneOvertakes Bug = "lane-overtakes" // what is behind a piece that failed is run
	NeverPause    Bug = "never-pause"    // who can not take tries again at once
)
