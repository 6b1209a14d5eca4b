package plant

// Bug names a planted bug, by what the code does wrong.
type Bug string

// The bugs in the log and in writing it.
const (
	AckBeforeSync   Bug = "ack-before-sync"  // appends are answered before they are synced
	VoteUnsynced    Bug = "vote-unsynced"    // term and vote are answered before they are synced
	DirUnsynced     Bug = "dir-unsynced"     // the directory is not synced when a segment has been created
	TruncateTooFar  Bug = "truncate-too-far" // the log is truncated up to what is applied, durable or not
	ReviseRevisions Bug = "revise-revisions" // revisions of a lost tail are assigned again
	InstallSilently Bug = "install-silently" // after a crash, the log may have lost its end without a trace
	KeepOldRows     Bug = "keep-old-rows"    // a snapshot is added to the rows that it should replace
	ReadUnasked     Bug = "read-unasked"     // a leader answers reads without checking that it still leads
	ReadEarly       Bug = "read-early"       // a read is answered before the entries that it must see are applied
	FirstCome       Bug = "first-come"       // namespaces take no turns: commands are taken in the order of arrival
	FloodAhead      Bug = "flood-ahead"      // a namespace has as many active commands as if it were alone
	FloodFills      Bug = "flood-fills"      // a namespace may take all room for waiting commands
)

// The bugs in the engine.
const (
	DeliverTwice  Bug = "deliver-twice"  // an applied delivery is applied again
	ForgetMore    Bug = "forget-more"    // messages after the delivered ones are forgotten with them
	ReplyLost     Bug = "reply-lost"     // the outcome of a message is not reported to anyone
	ReplyTwice    Bug = "reply-twice"    // the sender of a message gets its reply twice
	LaneBlocks    Bug = "lane-blocks"    // while one lane is held, all are
	LoseOutbox    Bug = "lose-outbox"    // a restart forgets that messages are waiting
	LoseTimers    Bug = "lose-timers"    // a restart forgets the earliest timer
	MapOrder      Bug = "map-order"      // rows are written in map order
	AppliedLate   Bug = "applied-late"   // the state does not record that it holds the newest entry
	HalfTxn       Bug = "half-txn"       // a refused transaction keeps its earlier changes
	CountRefused  Bug = "count-refused"  // the counts of a refused command are added to those of the next one
	CountUndone   Bug = "count-undone"   // returning to a savepoint keeps the counts since
	FollowRefused Bug = "follow-refused" // a refused follow-up does not refuse the command
	UnfencedDuty  Bug = "unfenced-duty"  // a duty's proposals are carried out in any term

	KeepRemembered Bug = "keep-remembered" // a refused command's changes in memory remain

	EndlessEntry   Bug = "endless-entry"   // the total writes of an entry's commands are unbounded
	EndlessFire    Bug = "endless-fire"    // a Fire continues however much it has written
	UncountedParts Bug = "uncounted-parts" // the writes of an operation are not counted with the others of its transaction
)

// The bugs in the key-value store.
const (
	AnyRevision   Bug = "any-revision"   // the condition on a revision holds for every revision
	MissedChange  Bug = "missed-change"  // watchers do not receive the first of several changes
	EternalExpiry Bug = "eternal-expiry" // a key gets no timer when its expiry is changed
	LostVersion   Bug = "lost-version"   // an overwritten version is not added to the history
)

// The bugs in actions: the runs that workers get, and how they may end them.
const (
	KeylessFirst  Bug = "keyless-first"  // runs without a concurrency key keep their turn
	CancelFrees   Bug = "cancel-frees"   // a cancelled run releases its slots before its handler has returned
	RetryUnrated  Bug = "retry-unrated"  // attempts after the first one do not count for the rate limit
	ReleaseCounts Bug = "release-counts" // a released attempt counts
	AnyAttempt    Bug = "any-attempt"    // a call for an earlier attempt is accepted for the present one
	LaneForgotten Bug = "lane-forgotten" // a key whose slot is free again gets no turn
	DelayForgets  Bug = "delay-forgets"  // the action has no timer for the latest start of a run
	EternalRun    Bug = "eternal-run"    // the session has no timer for an attempt's timeout
)

// The bugs in the sessions of workers' processes, and in their list.
const (
	SilentForever         Bug = "silent-forever"         // a silent session does not end
	LostUncounted         Bug = "lost-uncounted"         // the attempts of an ended session are given back
	ReconciliationIgnored Bug = "reconciliation-ignored" // runs that a session holds and its process lacks stay with it
	CancelUntold          Bug = "cancel-untold"          // the process is not notified of cancelled runs
	CountsAnew            Bug = "counts-anew"            // the counts of a returning worker restart
)

// The bugs in the loops that take items and settle them.
const (
	AckFailed     Bug = "ack-failed"     // a message whose handler failed is acked
	AckFailedToo  Bug = "ack-failed-too" // a record whose handler failed is acknowledged
	UpdateBlindly Bug = "update-blindly" // an update ignores concurrent writes
	LockUnrenewed Bug = "lock-unrenewed" // a lock is not renewed while its function runs
)

// The bugs in schedules.
const (
	TickTwice      Bug = "tick-twice"       // a tick comes although it is already decided
	TickLost       Bug = "tick-lost"        // ticks for which a command has no room count as decided
	CatchUpIgnored Bug = "catch-up-ignored" // all missed ticks are caught up
	BufferedLost   Bug = "buffered-lost"    // a tick that waits for a run to end waits forever
)

// The bugs in runs of workflows.
const (
	AnyEnd             Bug = "any-end"             // the end of an earlier call of a step counts for the present one
	DueLater           Bug = "due-later"           // an event at a deadline, before its timer, is in time
	SignalKept         Bug = "signal-kept"         // the bytes of a consumed signal count forever
	EventLost          Bug = "event-lost"          // the history lacks the retry of a step
	AmbiguousStays     Bug = "ambiguous-stays"     // a step with possible but unknown effects is not compensated
	FailureUndone      Bug = "failure-undone"      // failed steps are compensated
	CancelForgets      Bug = "cancel-forgets"      // the step at which a run is cancelled is not compensated
	UndoneTwice        Bug = "undone-twice"        // compensated steps are compensated again when the run is retried and fails
	TimedOutRuns       Bug = "timed-out-runs"      // the calls of a timed-out step continue
	OneAttemptMore     Bug = "one-attempt-more"    // a step is tried once too often
	WithinIgnored      Bug = "within-ignored"      // a step is retried however long it has taken
	OnePollMore        Bug = "one-poll-more"       // a call is polled once too often
	BranchesUnbounded  Bug = "branches-unbounded"  // all branches of a step run at once
	SiblingsRun        Bug = "siblings-run"        // branches of a decided step continue
	StoppedCounts      Bug = "stopped-counts"      // a branch whose child was cancelled counts as running
	FailedCounts       Bug = "failed-counts"       // a failed branch counts as running
	FailureWaits       Bug = "failure-waits"       // a parallel step waits for all its branches when one has failed
	ChildUnawaited     Bug = "child-unawaited"     // a run compensates while a child of it is still ending
	HandlersLeft       Bug = "handlers-left"       // a child ends while handlers of its calls are active
	CutOffAnswers      Bug = "cut-off-answers"     // a child cancelled by another caller has compensated all that it has done
	EndlessLoop        Bug = "endless-loop"        // steps that wait for nothing run forever
	RunEternal         Bug = "run-eternal"         // a run has no timer for its timeout
	AnyInput           Bug = "any-input"           // a start with an earlier key and a different input counts as the earlier start
	KeepAll            Bug = "keep-all"            // more runs are kept than the definition says
	HandoverSkipped    Bug = "handover-skipped"    // an excess run is forgotten before waiters for its end can have read it
	RelayLost          Bug = "relay-lost"          // the end of a call does not reach a run in another shard
	DisownNobody       Bug = "disown-nobody"       // the callee of a finished call runs all the same
	UnheardIsAbsent    Bug = "unheard-is-absent"   // data that a shard has not received yet counts as absent
	RetryKeepsKey      Bug = "retry-keeps-key"     // a compensated step is retried under its earlier key
	RetryAnywhere      Bug = "retry-anywhere"      // a run resumes after compensated steps
	RetryForgets       Bug = "retry-forgets"       // likewise, after a retry that failed
	BatchConflicts     Bug = "batch-conflicts"     // a batch with the start of an earlier one, and another end, goes to the dead letters
	RetryLast          Bug = "retry-last"          // a run resumes from the end of its path of failure
	AmbiguousForgotten Bug = "ambiguous-forgotten" // possible effects of an attempt are forgotten when the next one ends
	UndoneBeside       Bug = "undone-beside"       // effects of a handler are compensated while it is active
	LargeStays         Bug = "large-stays"         // a run that fails at its very end compensates nothing
	LastVisitUndone    Bug = "last-visit-undone"   // each visit is compensated with the results of the last one
	FanForgets         Bug = "fan-forgets"         // a failed parallel step leaves the effects of its branches
	SentAnew           Bug = "sent-anew"           // a visit is compensated with the arguments that it would have now
)

// The bugs in plans and schedules of workflows.
const (
	AnyEpoch        Bug = "any-epoch"         // the result of an earlier call counts for the present state of the breaker
	OneProbeMore    Bug = "one-probe-more"    // a half-open breaker lets one call too many through
	OneFailureMore  Bug = "one-failure-more"  // a breaker opens one failure too late
	RateUntaken     Bug = "rate-untaken"      // calls do not count for rates of a minute and longer
	RateUnshared    Bug = "rate-unshared"     // each shard has the whole of a rate
	AnyGeneration   Bug = "any-generation"    // the result of a call that began before the cache became invalid is cached
	CacheEternal    Bug = "cache-eternal"     // expired results are taken from the cache
	CacheUnbounded  Bug = "cache-unbounded"   // a plan's cache is unbounded
	CachedCounts    Bug = "cached-counts"     // the bytes of results no longer cached count forever
	OpenUntold      Bug = "open-untold"       // other shards are not notified that a breaker has opened
	InvalidUntold   Bug = "invalid-untold"    // other shards are not notified that cached results are invalid
	FatalRetried    Bug = "fatal-retried"     // a fatal error counts as an ordinary one
	TrackForever    Bug = "track-forever"     // an outcome is waited for however long it takes
	OneRunMore      Bug = "one-run-more"      // a schedule has one run too many
	RestUnrouted    Bug = "rest-unrouted"     // the rest of a batch starts a run where the whole batch belongs
	EndTwice        Bug = "end-twice"         // a retried run of a schedule ends twice
	ResumeCatchesUp Bug = "resume-catches-up" // a resumed schedule makes up for its pause
	ScheduleTwice   Bug = "schedule-twice"    // a workflow is started by a tick that is already decided
)

// The bugs in the language of workflows.
const (
	PauseUnbounded  Bug = "pause-unbounded"  // a pause has no limit of its own
	RequiredAbsent  Bug = "required-absent"  // a required member may be missing
	SizeUnchecked   Bug = "size-unchecked"   // text that is too short is accepted
	MembersMixed    Bug = "members-mixed"    // among several members with one name a path finds parts of each
	RenderUnbounded Bug = "render-unbounded" // a template produces as much as its paths lead to
	KeyOfNothing    Bug = "key-of-nothing"   // a path of a key may lead nowhere
)

// The bugs in the operators of stream processing.
const (
	FuncPanics       Bug = "func-panics"       // a record whose function panics is dropped
	BlockStays       Bug = "block-stays"       // a late record does not change the block of its pane
	EndInside        Bug = "end-inside"        // a record at the end of a window belongs to it
	LateUntold       Bug = "late-untold"       // changes by late records are not emitted
	PurgeEarly       Bug = "purge-early"       // windows are forgotten when they fire, whatever the lateness
	LastAgain        Bug = "last-again"        // firing continues with the window that was the last one
	MeasuresTogether Bug = "measures-together" // an average of several measures is divided by the records of all of them
	MergeUncounted   Bug = "merge-uncounted"   // panes of a window do not add up
	SessionsApart    Bug = "sessions-apart"    // a record between two sessions belongs to only one
	SessionUntimed   Bug = "session-untimed"   // a session has no timer
	SessionLate      Bug = "session-late"      // sessions have no lateness
	PartnerUnnoted   Bug = "partner-unnoted"   // a record that has found a partner counts as unpaired in the end
	SeenForever      Bug = "seen-forever"      // seen keys are never forgotten
	IdleHolds        Bug = "idle-holds"        // idle partitions hold the watermark
	MarkFalls        Bug = "mark-falls"        // the watermark moves backwards
	IdleStands       Bug = "idle-stands"       // time stands still when all partitions are idle
	LateEverywhere   Bug = "late-everywhere"   // late records go to all sinks
	IdleRuns         Bug = "idle-runs"         // event time follows the clock although nothing waits for it
	FirstRefused     Bug = "first-refused"     // a leader receives only the first of several refused outputs
	JoinPunctual     Bug = "join-punctual"     // an unpaired left record is moved to the time at which that is known
	LateUncounted    Bug = "late-uncounted"    // points written before a source's position are not counted
	FailureEach      Bug = "failure-each"      // a record with many failed parts has an error for each of them
	FailureCooked    Bug = "failure-cooked"    // a failed record is reported as the operators have left it
)

// The bugs in jobs of stream processing.
const (
	AnyTick          Bug = "any-tick"          // a tick is carried out whichever is the next one
	AnyRevisionOfJob Bug = "any-revision-job"  // a tick is carried out whatever has happened to the job
	BacklogStays     Bug = "backlog-stays"     // delivered messages count as waiting
	TooManyWait      Bug = "too-many-wait"     // outputs larger than a queue's maximum wait for room
	LargeTicks       Bug = "large-ticks"       // ticks are large while users write
	ClocksAlike      Bug = "clocks-alike"      // a shard's clock is used as the time of another
	MarkStays        Bug = "mark-stays"        // event time continues although no source does
	RefusedStands    Bug = "refused-stands"    // a tick stands although one of its outputs was refused
	RefusedLost      Bug = "refused-lost"      // outputs that a sink refuses for good are not reported
	ErrorsUncounted  Bug = "errors-uncounted"  // failures do not count
	PutsAll          Bug = "puts-all"          // a key is put as often as it occurs in a tick
	ErrorsEternal    Bug = "errors-eternal"    // the stream of errors keeps everything
	AnyStream        Bug = "any-stream"        // a recreated stream counts as the earlier one
	GapUntold        Bug = "gap-untold"        // trimmed records do not count
	EndMoves         Bug = "end-moves"         // a bounded job also reads later records
	LatestLater      Bug = "latest-later"      // the latest position is determined when the leader reads it
	OldGeneration    Bug = "old-generation"    // a restore leaves the earlier state
	CountersRestored Bug = "counters-restored" // counters go back with a restore
	CancelKeeps      Bug = "cancel-keeps"      // a cancelled job keeps its state
	NameStays        Bug = "name-stays"        // a forgotten job is found by its name
	PartStays        Bug = "part-stays"        // a part of a job in a spread namespace does not restart with the job
	AnyEpochOfJob    Bug = "any-epoch-job"     // the end of a part counts for the job in any epoch
	ExchangeEndless  Bug = "inbox-endless"     // an exchange of a stage accepts records without bound
	UnreadIdle       Bug = "unread-idle"       // a shard is idle for a section that has not read its output
	IdleForever      Bug = "idle-forever"      // a shard that was idle in the job's last run is idle until it reports otherwise
	StaleIdle        Bug = "stale-idle"        // a shard that was idle does not hold others, though it may not have read its records yet
	PassedStays      Bug = "passed-stays"      // records passed on before a restore are taken after it
	EndUnheard       Bug = "end-unheard"       // a section is not notified that those before it have ended
	// a section ends when its last windows have fired, whatever it must still read since it was
	// restored
	EndsWithWindows Bug = "ends-with-windows"
)

// The bugs in keys.
const (
	KeyEternal        Bug = "key-eternal"        // a key does not expire
	EndedGoesOn       Bug = "ended-goes-on"      // an ended session is still valid
	SessionEternal    Bug = "session-eternal"    // a session does not end
	RevokedStays      Bug = "revoked-stays"      // calls begun with a key continue when it is revoked
	LateAnswer        Bug = "late-answer"        // an older answer replaces a newer one
	NewKeyUnasked     Bug = "new-key-unasked"    // an uncached key counts as unknown
	MadeUncounted     Bug = "made-uncounted"     // a key creates any number of namespaces
	AnySignature      Bug = "any-signature"      // a session is valid without a check of its signature
	AnySecret         Bug = "any-secret"         // the ID of a key is enough
	EachAddress       Bug = "each-address"       // the owner of a network has as many attempts as addresses
	FailuresForgotten Bug = "failures-forgotten" // wrong keys do not count
	LastAdminGoes     Bug = "last-admin-goes"    // the last admin key can be revoked
	AdminsStay        Bug = "admins-stay"        // revoked admin keys count
	SecondStore       Bug = "second-store"       // the first key can be created twice
)

// The bugs in handing out the records of streams.
const (
	OneBatchMore    Bug = "one-batch-more"   // one batch too many is active
	PausedHands     Bug = "paused-hands"     // records are handed out during a pause
	NeverWaits      Bug = "never-waits"      // records do not wait for others
	FromTheFirst    Bug = "from-the-first"   // a group that should begin after all records begins with the first
	EndsUnheard     Bug = "ends-unheard"     // finished batches are waited for
	RefusedUnburied Bug = "refused-unburied" // a refused batch is lost
	BatchUnbounded  Bug = "batch-unbounded"  // a batch may have any size
	OneRecordMore   Bug = "one-record-more"  // a batch has one record too many
)

// The bugs in queues.
const (
	AnyReceipt   Bug = "any-receipt"   // the receipt of an earlier delivery is valid for the present one
	EternalLease Bug = "eternal-lease" // the queue has no timer for the end of a lease
	KeepTaken    Bug = "keep-taken"    // messages taken by a refused transaction are not ready again
)

// The bugs in takes, and in consumer groups.
const (
	ReservedForever Bug = "reserved-forever"  // the reservation of a take remains when the take has ended
	ReadWhileEnding Bug = "read-while-ending" // records are delivered while older ones are being taken back
	SeekKeepsDue    Bug = "seek-keeps-due"    // a group keeps its due records after a seek
	ExcuseExpelled  Bug = "excuse-expelled"   // a delivery to a member expelled for its silence does not count
	MissNobody      Bug = "miss-nobody"       // the leader does not notice that a waiting member is gone
	ForgetAnnounced Bug = "forget-announced"  // a record that is ready again is not noted in the group's row
	UnboundedExpire Bug = "unbounded-expire"  // one command expires everything that is due
	ReviveGroup     Bug = "revive-group"      // a late command restores a deleted group in one of its shards
)

// The bugs in time series.
const (
	SealUnfenced        Bug = "seal-unfenced"        // blocks are sealed whatever was sealed before
	SealDropsNewest     Bug = "seal-drops-newest"    // the newest of the sealed blocks is lost
	GenerationsReversed Bug = "generations-reversed" // earlier sealed points replace later ones
	AnyFingerprint      Bug = "any-fingerprint"      // series numbers are accepted for any series
	LateUnmarked        Bug = "late-unmarked"        // the buckets of a late point are not recomputed
	SealDeleted         Bug = "seal-deleted"         // points of deleted series are sealed with the others
	DeletionForgotten   Bug = "deletion-forgotten"   // a deletion is forgotten while blocks have points of the series
	RetireUnseen        Bug = "retire-unseen"        // series are removed although they have been written meanwhile
	RestLost            Bug = "rest-lost"            // a merge loses the points of a page after its end
	ReadExpired         Bug = "read-expired"         // expired points that have not been removed yet are read
	PartialAnswer       Bug = "partial-answer"       // a query omits points that are gone
	RewriteUnfenced     Bug = "rewrite-unfenced"     // pages are replaced whatever has happened to them
	RoomUnchecked       Bug = "room-unchecked"       // series are created beyond the limit
)

// The bugs in the loop of workers.
const (
	NeverRenew    Bug = "never-renew"    // leases are not renewed while handlers run
	SettleLost    Bug = "settle-lost"    // lost items are settled all the same
	TakeDraining  Bug = "take-draining"  // items taken while the loop ends are run
	PanicUncaught Bug = "panic-uncaught" // a handler's panic is not recovered
	LaneOvertakes Bug = "lane-overtakes" // items after a failed one of the same lane are run
	NeverPause    Bug = "never-pause"    // a failed take is repeated without a pause
)
