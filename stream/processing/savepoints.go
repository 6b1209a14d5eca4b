package processing

import (
	"context"
	"iter"

	"github.com/floedb/floe/internal/engine"
)

// Savepoints are the savepoints of a job.
type Savepoints struct {
	store *Store
	job   JobID
}

// Savepoints returns a handle to create, read, delete and list the savepoints of a job.
func (s *Store) Savepoints(id JobID) Savepoints { return Savepoints{s, id} }

// Create starts a savepoint: a copy of the job's state between two ticks. The job keeps running,
// except in a namespace that is spread over all shards, where it pauses until the savepoint is
// complete. Store.AwaitSavepoint waits for completion. Beyond MaxSavepoints the oldest savepoint is
// deleted.
//
// Errors: ErrNotFound; ErrConflict if the job is cancelled or being restored; ErrBusy while another
// savepoint is being made.
func (l Savepoints) Create(ctx context.Context) (SavepointID, error) {
	res, err := l.store.change(ctx, savepoint, l.job, 0)
	if err != nil {
		return "", err
	}
	_, r, _ := l.job.parse()
	return savepointID(res.created, ref{r.shard, res.number}), nil
}

// Get returns a savepoint, complete or not. Errors: ErrNotFound if the job or the savepoint does
// not exist; ErrInvalid for a malformed id.
func (l Savepoints) Get(ctx context.Context, id SavepointID) (Savepoint, error) {
	if _, _, err := id.parse(); err != nil {
		return Savepoint{}, err
	}
	q, err := l.store.query(ctx, l.job, l.store.Namespace())
	if err != nil {
		return Savepoint{}, err
	}
	return q.savepoint(id)
}

func (q *jobQuery) savepoint(id SavepointID) (Savepoint, error) {
	for _, sp := range q.savepoints {
		if sp.ID == id {
			return sp, nil
		}
	}
	return Savepoint{}, engine.Errorf(ErrNotFound, "savepoint %s not found", id)
}

// Delete removes a savepoint. Errors: ErrNotFound; ErrConflict while the job is being restored from
// it.
func (l Savepoints) Delete(ctx context.Context, id SavepointID) error {
	_, r, err := id.parse()
	if err != nil {
		return err
	}
	_, err = l.store.change(ctx, dropSavepoint, l.job, int64(r.number))
	return err
}

// Page returns a page of the savepoints, the oldest first.
//
// Options: Limit, Cursor. Errors: ErrNotFound if the job does not exist; ErrInvalid for a limit
// outside 1-1000, and for a malformed cursor or id.
func (l Savepoints) Page(ctx context.Context, opts ...PageOption) (page Page[Savepoint], err error) {
	o, err := engine.PageOf(opts)
	if err != nil {
		return page, err
	}
	if _, _, err := SavepointID(o.Cursor).parse(); o.Cursor != "" && err != nil {
		return page, engine.BadCursor(o.Cursor)
	}
	q, err := l.store.query(ctx, l.job, l.store.Namespace())
	if err != nil {
		return page, err
	}
	return engine.PageIn(q.savepoints, o, func(sp Savepoint) string { return string(sp.ID) }), nil
}

// All iterates over the savepoints, in the order of Page and with the contract of Store.All.
// Options and errors are those of Page.
func (l Savepoints) All(ctx context.Context, opts ...PageOption) iter.Seq2[Savepoint, error] {
	return engine.All(ctx, l.Page, opts)
}
