package processing

import (
	"bytes"
	"context"
	"errors"

	"github.com/floedb/floe/internal/engine"
)

// Applied says what Apply has done.
type Applied struct {
	Job     JobID
	Status  Status
	Made    bool // there was no job of that name
	Changed bool // the job has another definition now, or goes on
	Plan    Plan // what was kept and dropped of its state, if it has changed
}

// Apply has a job of the definition's name run with the definition, whatever there was: it submits one, stops the one that there is and restores it with the
// definition, or leaves it as it is when it has the definition already and runs, or is completed. Cancelled jobs do not count. The same call again changes nothing.
//
// Options: DropState; FromSavepoint. Errors: those of Submit and Restore; ErrConflict also if several jobs have the name. When state would be lost that DropState does
// not allow to lose, the job goes on as it is; so it does, or is stopped, after another error.
func (s *Store) Apply(ctx context.Context, definition []byte, opts ...RestoreOption) (Applied, error) {
	p, err := s.parse(definition)
	if err != nil {
		return Applied{}, err
	}
	id, err := s.only(ctx, p.job.Name)
	if err != nil {
		return Applied{}, err
	}
	if id == "" {
		made, err := s.Submit(ctx, definition)
		return Applied{Job: made.Job, Status: made.Status, Made: true}, err
	}
	d, err := s.Detail(ctx, id)
	if err != nil {
		return Applied{}, err
	}
	done := Applied{Job: id, Status: d.Status}
	if bytes.Equal(d.Definition, definition) && (d.Status == Running || d.Status == Completed) {
		return done, nil
	}
	opts = append(opts[:len(opts):len(opts)], WithDefinition(definition))
	if done.Plan, err = s.Plan(ctx, id, opts...); err != nil {
		return done, err
	}
	if done.Plan.Drops() && !restoreOptionsOf(opts).drop {
		return done, lost(id, &done.Plan)
	}
	if d.Status == Running {
		if _, err := s.Stop(ctx, id); err != nil {
			return done, err
		}
	}
	if done.Status, err = s.Restore(ctx, id, opts...); err != nil {
		if d.Status == Running {
			_, again := s.Restore(ctx, id) // as it was
			err = errors.Join(err, again)
		}
		return done, err
	}
	done.Changed = true
	return done, nil
}

// only returns the job of a name that is not cancelled, "" if there is none. Errors: ErrConflict if there are several.
func (s *Store) only(ctx context.Context, name string) (id JobID, err error) {
	for j, err := range s.All(ctx, Named(name)) {
		switch {
		case err != nil:
			return "", err
		case j.Status == Cancelled:
		case id != "":
			return "", engine.Errorf(ErrConflict, "several jobs are called %q: %s and %s", name, id, j.ID)
		default:
			id = j.ID
		}
	}
	return id, nil
}

// lost is the error of a change with which state would be lost.
func lost(id JobID, p *Plan) error {
	return engine.Errorf(ErrConflict, "job %s: state would be lost: %v", id, p.Dropped)
}
