package primitive

import (
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// All returns the tables of all primitives, which every node has.
func All() []engine.Primitive {
	return []engine.Primitive{
		engine.TableOf[kv.Store](), engine.TableOf[stream.Store](), engine.TableOf[queue.Store](), engine.TableOf[ts.Store](),
		engine.TableOf[action.Store](), engine.TableOf[workflow.Store](), engine.TableOf[processing.Store](), auth.Primitive(),
	}
}
