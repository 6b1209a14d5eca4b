package stream

import "github.com/floedb/floe/internal/engine"

type (
	hiddenOp        = engine.HiddenOp
	hiddenCondition = engine.HiddenCondition
)

// Op is an operation of a transaction, made by AppendOp, AckOp and their siblings; see floe.Txn. It is good for any number of transactions. The zero Op is
// refused with ErrInvalid.
type Op struct{ hiddenOp }

// Condition is a condition of a transaction, made by LastIDIs; see floe.Txn. It is good for any number of transactions. The zero Condition is
// refused with ErrInvalid.
type Condition struct{ hiddenCondition }
