package floe

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
)

// VerifyReport says what Verify has looked at and what is wrong. Its JSON is what floe server
// verify prints.
type VerifyReport struct {
	Problems   []string      `json:"problems"`    // each names the file and offset, or the shard and row; at most 1,000
	Unlisted   int           `json:"unlisted"`    // problems beyond those
	Format     int           `json:"format"`      // version of the directory's layout; 0: it can not be read
	CreatedBy  string        `json:"created_by"`  // build of floe that made it, "" if it does not say so
	WrittenBy  string        `json:"written_by"`  // build that has opened it last
	Shards     int           `json:"shards"`      // 0: the directory was never completed
	Segments   int           `json:"segments"`    // files of the log
	LogBytes   int64         `json:"log_bytes"`   // of the log's records
	Entries    uint64        `json:"entries"`     // in the log, of all shards
	Tables     int           `json:"tables"`      // files of the state
	TableBytes int64         `json:"table_bytes"` // of these files
	Rows       []int64       `json:"rows"`        // of the state, by shard, with the log replayed
	Elapsed    time.Duration `json:"elapsed_ns"`  // how long it took
}

// Verify reads all of a node's data directory and reports what is damaged or does not fit together:
// every record of the log, every block of the state's tables, and, with the log replayed in memory
// as Open would do it, every row. It changes nothing in the directory, keeps nodes from opening it
// meanwhile, and needs memory for what a replay writes: about as much as the log holds behind the
// last flush of the state.
//
// A report without Problems means that Open will succeed and find everything that was ever
// acknowledged, as far as the directory itself can tell: it can not know of a newest write that
// never got there, nor that all of it was replaced by an older copy.
//
// Errors: ErrInUse if a node has the directory; ErrInvalid if it is no data directory; ctx's, and
// those of reading.
func Verify(ctx context.Context, dir string) (VerifyReport, error) {
	report, err := shard.Verify(ctx, shard.VerifyConfig{Dir: dir, Primitives: primitive.All()})
	return VerifyReport(report), err
}
