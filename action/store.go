package action

import "github.com/floedb/floe/internal/engine"

// Store holds the actions of one namespace. It is cheap to make, safe for concurrent use and needs no Close.
type Store struct{ scope engine.Scope }

func newStore(s engine.Scope) *Store { return &Store{s} }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }
