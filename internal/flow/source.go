package flow

// Source supplies the roots of paths as JSON, nil for a missing one. The bytes are valid until the
// next call.
type Source interface {
	Root(r Root, name string) []byte
}

// Root is the root of a path.
type Root uint8

// The roots of paths.
const (
	RootInput     Root = iota + 1 // $.input: input of the run
	RootOutput                    // $.steps.<name>.output: output of the step's last visit
	RootOutcome                   // $.steps.<name>.outcome, a JSON string
	RootSignal                    // $.signals.<type>: last signal consumed
	RootRunID                     // $.flo.run_id, a JSON string
	RootTimestamp                 // $.flo.timestamp: time of the evaluation, ms
	RootItem                      // $.item, or $.<as>
	RootIndex                     // $.index: index of the item
	RootStepInput                 // in a cache key: the step's input
)
