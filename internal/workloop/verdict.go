package workloop

import "errors"

// ErrSettled is the error of a handler that has settled its piece itself.
var ErrSettled = errors.New("settled by the handler")

// Permanent marks the error of a handler as one that another attempt cannot fix. Permanent(nil) is
// nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{err}
}

// PermanentError is the type of Permanent's result.
type PermanentError struct{ err error }

func (e *PermanentError) Error() string { return e.err.Error() }

// Unwrap returns the error that was marked.
func (e *PermanentError) Unwrap() error { return e.err }

// IsPermanent reports whether an error was marked by Permanent.
func IsPermanent(err error) bool {
	var p *PermanentError
	return errors.As(err, &p)
}
