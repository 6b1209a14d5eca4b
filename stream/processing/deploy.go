package processing

import (
	"bytes"
	"context"
	"errors"

	"github.com/floedb/floe/internal/engine"
)

// Applied is the result of Apply.
type Applied struct {
	Job     JobID
	Status  Status
	Made    bool // no job of that name existed
	Changed bool // the job got a new definition, or was resumed
	Plan    Plan // which state was kept and dropped, if the job has changed
}

// Apply makes the job of the definition's name run with the definition. It submits a new job, or
// stops the existing one and restores it with the definition. A job that already has the definition
// and is running or completed stays unchanged. Cancelled jobs do not count. Repeating a call
// changes nothing. Of several concurrent calls, one submits the job and the others find it.
//
// Options: DropState; FromSavepoint. Errors: those of Submit and Restore; ErrConflict also if
// several jobs have the name, and with FromSavepoint if the job would be left unchanged. If state
// would be lost without DropState, the job continues unchanged; after another error it continues or
// is stopped.
func (s *Store) Apply(ctx context.Context, definition []byte, opts ...RestoreOption) (Applied, error) {
	p, err := s.parse(definition)
	if err != nil {
		return Applied{}, err
	}
	for try := 1; ; try++ {
		done, overtaken, err := s.apply(ctx, p.job.Name, definition, opts)
		if !overtaken || try == maxApplies {
			return done, err
		}
	}
}

// maxApplies limits how often Apply starts over because of concurrent changes of the job. Each
// restart means that one of those changes has succeeded.
const maxApplies = 20

// PlanApply returns what Apply with the same arguments would do. It changes nothing. If state would
// be lost, Plan lists it, and Apply needs DropState. The Status is the job's current one, or 0 if
// Apply would submit the job.
//
// Options and errors: those of Apply, except that lost state is no error.
func (s *Store) PlanApply(ctx context.Context, definition []byte, opts ...RestoreOption) (Applied, error) {
	p, err := s.parse(definition)
	if err != nil {
		return Applied{}, err
	}
	done, _, err := s.planApply(ctx, p.job.Name, definition, opts)
	return done, err
}

// planApply returns what apply would do, and the options for Restore.
func (s *Store) planApply(ctx context.Context, name string, definition []byte, opts []RestoreOption) (Applied, []RestoreOption, error) {
	savepoint := restoreOptionsOf(opts).savepoint
	id, err := s.only(ctx, name)
	if err == nil && id == "" && savepoint != "" {
		err = engine.Errorf(ErrInvalid, "processing: job %q does not exist, so it has no savepoint %q", name, savepoint)
	}
	if err != nil || id == "" {
		return Applied{Made: err == nil}, nil, err
	}
	d, err := s.Get(ctx, id)
	if err != nil {
		return Applied{}, nil, err
	}
	done := Applied{Job: id, Status: d.Status}
	if bytes.Equal(d.Definition, definition) && (d.Status == Running || d.Status == Completed) {
		if savepoint != "" {
			err = engine.Errorf(ErrConflict, "processing: job %q has this definition and is %v: to return to savepoint %q, stop and restore it",
				name, d.Status, savepoint)
		}
		return done, nil, err
	}
	opts = append(opts[:len(opts):len(opts)], ReplaceDefinition(definition))
	done.Changed = true
	done.Plan, err = s.Plan(ctx, id, opts...)
	return done, opts, err
}

// apply is one attempt of Apply. overtaken reports that another call has submitted or changed the
// job.
func (s *Store) apply(ctx context.Context, name string, definition []byte, opts []RestoreOption) (done Applied, overtaken bool, err error) {
	done, opts, err = s.planApply(ctx, name, definition, opts)
	if done.Made {
		made, err := s.submit(ctx, definition, true)
		return Applied{Job: made.Job, Status: made.Status, Made: err == nil}, errors.Is(err, ErrConflict), err
	}
	if err != nil {
		done.Changed = false
		return done, done.Job == "" && errors.Is(err, ErrNotFound), err
	}
	if !done.Changed {
		return done, false, nil
	}
	done.Changed = false
	if done.Plan.Drops() && !restoreOptionsOf(opts).drop {
		return done, false, lost(done.Job, &done.Plan)
	}
	was := done.Status
	if was == Running {
		if _, err := s.Stop(ctx, done.Job); err != nil {
			return done, errors.Is(err, ErrConflict), err
		}
	}
	if done.Status, err = s.Restore(ctx, done.Job, opts...); err != nil {
		if overtaken = errors.Is(err, ErrConflict); was == Running && !overtaken {
			_, again := s.Restore(ctx, done.Job) // with the old definition
			err = errors.Join(err, again)
		}
		return done, overtaken, err
	}
	done.Changed = true
	return done, false, nil
}

// only returns the job of a name that is not cancelled, "" if none exists. Errors: ErrConflict if
// there are several.
func (s *Store) only(ctx context.Context, name string) (id JobID, err error) {
	for j, err := range s.All(ctx, Named(name)) {
		switch {
		case err != nil:
			return "", err
		case j.Status == Cancelled:
		case id != "":
			return "", engine.Errorf(ErrConflict, "several jobs have the name %q: %s and %s", name, id, j.ID)
		default:
			id = j.ID
		}
	}
	return id, nil
}

// lost is the error of a change that would lose state.
func lost(id JobID, p *Plan) error {
	return engine.Errorf(ErrConflict, "job %s: state would be lost: %v", id, p.Dropped)
}
