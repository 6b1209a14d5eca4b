package plant

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
	FirstCome       Bug = "first-come"       // namespaces have no turns: commands are taken in the order in which they came
	FloodAhead      Bug = "flood-ahead"      // a namespace has as much under way as if it were alone
	FloodFills      Bug = "flood-fills"      // a namespace may take all there is for those that wait
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
	SilentForever         Bug = "silent-forever"         // a session that is silent does not end
	LostUncounted         Bug = "lost-uncounted"         // the attempts of a session that has ended are given back
	ReconciliationIgnored Bug = "reconciliation-ignored" // runs that a session holds and its process does not have stay with it
	CancelUntold          Bug = "cancel-untold"          // the process is not notified of cancelled runs
	CountsAnew            Bug = "counts-anew"            // the counts of a worker that comes back begin anew
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

// The bugs in runs of workflows.
const (
	AnyEnd             Bug = "any-end"             // the end of an earlier call of a step is that of the present one
	DueLater           Bug = "due-later"           // what comes at a deadline, before its timer, is in time
	SignalKept         Bug = "signal-kept"         // the bytes of a signal that was taken count for ever
	EventLost          Bug = "event-lost"          // the history does not say that a step is tried again
	AmbiguousStays     Bug = "ambiguous-stays"     // what a step may have done unknown to anybody is not compensated
	FailureUndone      Bug = "failure-undone"      // steps that have failed are compensated
	CancelForgets      Bug = "cancel-forgets"      // the step at which a run is cancelled is not compensated
	UndoneTwice        Bug = "undone-twice"        // what was compensated is so again when the run is retried and fails
	TimedOutRuns       Bug = "timed-out-runs"      // what a step has called goes on when the step has timed out
	OneAttemptMore     Bug = "one-attempt-more"    // a step is tried once more than it may be
	WithinIgnored      Bug = "within-ignored"      // a step is tried again however long it has taken
	OnePollMore        Bug = "one-poll-more"       // a call is asked once more than it may be
	BranchesUnbounded  Bug = "branches-unbounded"  // all branches of a step run at once
	SiblingsRun        Bug = "siblings-run"        // branches go on whose step is decided
	StoppedCounts      Bug = "stopped-counts"      // a branch whose child was cancelled counts as one that runs
	FailedCounts       Bug = "failed-counts"       // a branch that has failed counts as one that runs
	FailureWaits       Bug = "failure-waits"       // a parallel step waits for all its branches when one has failed
	ChildUnawaited     Bug = "child-unawaited"     // a run compensates while a child of it still ends
	HandlersLeft       Bug = "handlers-left"       // a child is over while handlers of its calls are at work
	CutOffAnswers      Bug = "cut-off-answers"     // a child that somebody else cancels has compensated all that it has done
	EndlessLoop        Bug = "endless-loop"        // steps that wait for nothing go on for ever
	RunEternal         Bug = "run-eternal"         // a run has no timer for when it has taken too long
	AnyInput           Bug = "any-input"           // a start with a key of before and another input is the start of before
	KeepAll            Bug = "keep-all"            // more runs are kept than the definition says
	HandoverSkipped    Bug = "handover-skipped"    // a run of too many is forgotten before who waits for its end can have read it
	RelayLost          Bug = "relay-lost"          // the end of a call does not find a run in another shard
	DisownNobody       Bug = "disown-nobody"       // what was called for a call that is over runs all the same
	UnheardIsAbsent    Bug = "unheard-is-absent"   // what a shard has not heard of yet is not there
	RetryKeepsKey      Bug = "retry-keeps-key"     // a step that was compensated is retried under the key of before
	RetryAnywhere      Bug = "retry-anywhere"      // a run goes on behind what was compensated
	RetryForgets       Bug = "retry-forgets"       // likewise, after a retry that was in vain
	BatchConflicts     Bug = "batch-conflicts"     // a batch that begins as one before, and ends elsewhere, goes to the dead letters
	RetryLast          Bug = "retry-last"          // a run goes on from the end of its path of failure
	AmbiguousForgotten Bug = "ambiguous-forgotten" // what an attempt may have done is forgotten when the next one ends
	UndoneBeside       Bug = "undone-beside"       // what a handler does is compensated while it does it
	LargeStays         Bug = "large-stays"         // a run that fails at its very end compensates nothing
	LastVisitUndone    Bug = "last-visit-undone"   // each visit is compensated with what the last one has come to
	FanForgets         Bug = "fan-forgets"         // a parallel step that has failed leaves what its branches have done
	SentAnew           Bug = "sent-anew"           // a visit is compensated with what it would be called with now
)

// The bugs in plans and schedules of workflows.
const (
	AnyEpoch        Bug = "any-epoch"         // the result of a call of before counts for the breaker as it is now
	OneProbeMore    Bug = "one-probe-more"    // a breaker that is half open lets one more through
	OneFailureMore  Bug = "one-failure-more"  // a breaker opens one failure too late
	RateUntaken     Bug = "rate-untaken"      // calls do not count for rates of a minute and longer
	RateUnshared    Bug = "rate-unshared"     // each shard has the whole of a rate
	AnyGeneration   Bug = "any-generation"    // what was called before the cache became invalid is cached
	CacheEternal    Bug = "cache-eternal"     // what has expired is taken from the cache
	CacheUnbounded  Bug = "cache-unbounded"   // a plan caches as much as there is
	CachedCounts    Bug = "cached-counts"     // the bytes of what is not cached any more count for ever
	OpenUntold      Bug = "open-untold"       // other shards do not hear that a breaker has opened
	InvalidUntold   Bug = "invalid-untold"    // other shards do not hear that what is cached has become invalid
	FatalRetried    Bug = "fatal-retried"     // a fatal error is one of many
	TrackForever    Bug = "track-forever"     // an outcome is waited for however long it takes
	OneRunMore      Bug = "one-run-more"      // a schedule has one run more than it may
	RestUnrouted    Bug = "rest-unrouted"     // what is left of a batch starts a run where the whole of it belongs
	EndTwice        Bug = "end-twice"         // a run of a schedule that was retried ends twice
	ResumeCatchesUp Bug = "resume-catches-up" // a schedule that goes on makes up for its pause
	ScheduleTwice   Bug = "schedule-twice"    // a workflow is started by a tick that is decided
)

// The bugs in the language of workflows.
const (
	PauseUnbounded  Bug = "pause-unbounded"  // a pause has no limit of its own
	RequiredAbsent  Bug = "required-absent"  // a member that is required may be missing
	SizeUnchecked   Bug = "size-unchecked"   // what is too short is long enough
	MembersMixed    Bug = "members-mixed"    // of several members with one name a path finds parts of each
	RenderUnbounded Bug = "render-unbounded" // a template makes as much as its paths lead to
	KeyOfNothing    Bug = "key-of-nothing"   // a path of a key may lead nowhere
)

// The bugs in the operators of stream processing.
const (
	FuncPanics       Bug = "func-panics"       // a record whose function panics is dropped
	BlockStays       Bug = "block-stays"       // a late record does not change the block of its pane
	EndInside        Bug = "end-inside"        // a record at the end of a window is in it
	LateUntold       Bug = "late-untold"       // what late records change is not told
	PurgeEarly       Bug = "purge-early"       // windows are forgotten when they fire, whatever the lateness
	LastAgain        Bug = "last-again"        // firing goes on with the window that was the last one
	MeasuresTogether Bug = "measures-together" // an average of several measures is divided by the records of all of them
	MergeUncounted   Bug = "merge-uncounted"   // panes of a window do not add up
	SessionsApart    Bug = "sessions-apart"    // a record that is between two sessions is in one
	SessionUntimed   Bug = "session-untimed"   // a session has no timer
	SessionLate      Bug = "session-late"      // sessions have no lateness
	PartnerUnnoted   Bug = "partner-unnoted"   // a record that has found a partner has none in the end
	SeenForever      Bug = "seen-forever"      // what has been seen is never forgotten
	IdleHolds        Bug = "idle-holds"        // idle partitions hold the watermark
	MarkFalls        Bug = "mark-falls"        // the watermark goes back
	IdleStands       Bug = "idle-stands"       // time stands still when all partitions are idle
	LateEverywhere   Bug = "late-everywhere"   // late records go to all sinks
	IdleRuns         Bug = "idle-runs"         // event time runs on by the clock although nothing waits for it
	FirstRefused     Bug = "first-refused"     // a leader is told of the first output that was refused, and not of the others
	JoinPunctual     Bug = "join-punctual"     // a left record that finds no partner is moved to the time at which that is known
	LateUncounted    Bug = "late-uncounted"    // points that are written before where a source has come to are not counted
	FailureEach      Bug = "failure-each"      // a record of which many parts fail is told of each of them
	FailureCooked    Bug = "failure-cooked"    // a record that fails is told as the operators have left it
)

// The bugs in jobs of stream processing.
const (
	AnyTick          Bug = "any-tick"          // a tick is carried out whichever comes next
	AnyRevisionOfJob Bug = "any-revision-job"  // a tick is carried out whatever has become of the job
	BacklogStays     Bug = "backlog-stays"     // what was delivered counts as waiting
	TooManyWait      Bug = "too-many-wait"     // what a queue never holds waits for room
	LargeTicks       Bug = "large-ticks"       // ticks are large while users write
	ClocksAlike      Bug = "clocks-alike"      // what a shard says of its clock is taken for the time of another
	MarkStays        Bug = "mark-stays"        // event time goes on although no source does
	RefusedStands    Bug = "refused-stands"    // a tick stands although one of its outputs was refused
	RefusedLost      Bug = "refused-lost"      // what a sink refuses for good is told nobody
	ErrorsUncounted  Bug = "errors-uncounted"  // failures do not count
	PutsAll          Bug = "puts-all"          // a key is put as often as it comes in a tick
	ErrorsEternal    Bug = "errors-eternal"    // the stream of errors keeps all
	AnyStream        Bug = "any-stream"        // a stream that was made again is the one of before
	GapUntold        Bug = "gap-untold"        // records that were trimmed do not count
	EndMoves         Bug = "end-moves"         // a bounded job reads what came later too
	LatestLater      Bug = "latest-later"      // the latest is when the leader looks
	OldGeneration    Bug = "old-generation"    // a restore leaves the state of before
	CountersRestored Bug = "counters-restored" // counters go back with a restore
	CancelKeeps      Bug = "cancel-keeps"      // a job that is cancelled keeps its state
	NameStays        Bug = "name-stays"        // a job that is forgotten is found by its name
	PartStays        Bug = "part-stays"        // a part of a job in a spread namespace does not begin again with the job
	AnyEpochOfJob    Bug = "any-epoch-job"     // the end of a part counts for the job whenever it was
	ExchangeEndless  Bug = "inbox-endless"     // an exchange of a stage accepts records without bound
	UnreadIdle       Bug = "unread-idle"       // a shard is idle for a section that has not read what it has sent
	IdleForever      Bug = "idle-forever"      // a shard that was idle when the job ran last is idle until it tells otherwise
	StaleIdle        Bug = "stale-idle"        // a shard that was idle does not hold others, though it may not have read its records yet
	PassedStays      Bug = "passed-stays"      // what was passed before a job was restored is taken after it
	EndUnheard       Bug = "end-unheard"       // a section does not hear that those in front have come to their end
	// a section has come to its end when its last windows have fired, whatever it has to read since
	// it was restored
	EndsWithWindows Bug = "ends-with-windows"
)

// The bugs in keys.
const (
	KeyEternal        Bug = "key-eternal"        // a key does not expire
	EndedGoesOn       Bug = "ended-goes-on"      // a session that was ended is still good
	SessionEternal    Bug = "session-eternal"    // a session does not end
	RevokedStays      Bug = "revoked-stays"      // what was begun with a key goes on when it is revoked
	LateAnswer        Bug = "late-answer"        // what was answered before counts after
	NewKeyUnasked     Bug = "new-key-unasked"    // a key that nobody has heard of is none
	MadeUncounted     Bug = "made-uncounted"     // a key creates any number of namespaces
	AnySignature      Bug = "any-signature"      // a session is whoever's it says
	AnySecret         Bug = "any-secret"         // the id of a key is enough
	EachAddress       Bug = "each-address"       // who has a network has as many attempts as addresses
	FailuresForgotten Bug = "failures-forgotten" // wrong keys do not count
	LastAdminGoes     Bug = "last-admin-goes"    // the last admin key can be revoked
	AdminsStay        Bug = "admins-stay"        // admin keys that were revoked count
	SecondStore       Bug = "second-store"       // there may be a first key twice
)

// The bugs in what streams hand to others.
const (
	OneBatchMore    Bug = "one-batch-more"   // one batch more than may be is under way
	PausedHands     Bug = "paused-hands"     // records are handed out in a pause
	NeverWaits      Bug = "never-waits"      // records do not wait for others
	FromTheFirst    Bug = "from-the-first"   // a group that is to begin behind all records begins with the first
	EndsUnheard     Bug = "ends-unheard"     // what has ended is waited for
	RefusedUnburied Bug = "refused-unburied" // a batch that is refused is gone
	BatchUnbounded  Bug = "batch-unbounded"  // a batch may have any size
	OneRecordMore   Bug = "one-record-more"  // a batch has one record more than it may
)

// The bugs in queues.
const (
	AnyReceipt   Bug = "any-receipt"   // the receipt of an earlier delivery is good for the present one
	EternalLease Bug = "eternal-lease" // the queue has no timer for when a lease ends
	KeepTaken    Bug = "keep-taken"    // what a refused transaction has taken is not remembered as ready again
)

// The bugs in takes, and in consumer groups.
const (
	ReservedForever Bug = "reserved-forever"  // the reservation of a take stays when the take has ended
	ReadWhileEnding Bug = "read-while-ending" // records are delivered while older ones are being taken back
	SeekKeepsDue    Bug = "seek-keeps-due"    // a group that has moved remembers what was due
	ExcuseExpelled  Bug = "excuse-expelled"   // a delivery to one who was silent for too long does not count
	MissNobody      Bug = "miss-nobody"       // the leader does not notice that one who waited is gone
	ForgetAnnounced Bug = "forget-announced"  // that a record is ready again is not noted in the group's row
	UnboundedExpire Bug = "unbounded-expire"  // all that is due is done by one command
	ReviveGroup     Bug = "revive-group"      // a late command brings a deleted group back in one of its shards
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
	PartialAnswer       Bug = "partial-answer"       // a query leaves out points that are gone
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
