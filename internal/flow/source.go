package flow

// Source is what paths lead to. It answers with JSON, nil for what is not there; the bytes are
// valid until the next call.
type Source interface {
	Root(r Root, name string) []byte
}

// Root is where a path begins.
type Root uint8

// The roots of paths.
const (
	RootInput     Root = iota + 1 // $.input: of the run
	RootOutput                    // $.steps.<name>.output: of the step's last visit
	RootOutcome                   // $.steps.<name>.outcome, a JSON string
	RootSignal                    // $.signals.<type>: the last one that was taken
	RootRunID                     // $.flo.run_id, a JSON string
	RootTimestamp                 // $.flo.timestamp: ms, of the evaluation
	RootItem                      // $.item, or $.<as>
	RootIndex                     // $.index: the item's place
	RootStepInput                 // of a key of a cache: the step's input
)
