package floe

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
)

// VerifyReport lists what Verify has checked and the problems it found. floe server verify prints
// it as JSON.
type VerifyReport struct {
	Problems   []string      `json:"problems"`    // each names the file and offset, or the shard and row; at most 1,000
	Unlisted   int           `json:"unlisted"`    // number of problems beyond those
	Format     int           `json:"format"`      // version of the directory's layout; 0: it cannot be read
	CreatedBy  string        `json:"created_by"`  // build of floe that made it, "" if it does not say so
	WrittenBy  string        `json:"written_by"`  // build that last opened it
	Shards     int           `json:"shards"`      // 0: the directory was never completed
	Segments   int           `json:"segments"`    // log files
	LogBytes   int64         `json:"log_bytes"`   // bytes of the log's records
	Entries    uint64        `json:"entries"`     // in the log, of all shards
	Tables     int           `json:"tables"`      // files of the state
	TableBytes int64         `json:"table_bytes"` // of these files
	Rows       []int64       `json:"rows"`        // rows of the state, by shard, with the log replayed
	Elapsed    time.Duration `json:"elapsed_ns"`  // duration of the verification
}

// Verify reads all of a node's data directory and reports damage and inconsistencies. It checks
// every record of the log, every block of the state's tables and, with the log replayed in memory
// as Open would do, every row. It changes nothing in the directory, and prevents nodes from opening
// it in the meantime. It needs memory for the replayed writes, about the size of the log since the
// last flush of the state.
//
// A report without Problems means that Open will succeed and find every acknowledged write, as far
// as the directory itself can show. Verify cannot detect that the latest write never reached the
// directory, or that an older copy replaced all of it.
//
// Errors: ErrInUse if a node has the directory open; ErrInvalid if it is not a data directory;
// ctx's error, and errors of reading.
func Verify(ctx context.Context, dir string) (VerifyReport, error) {
	report, err := shard.Verify(ctx, shard.VerifyConfig{Dir: dir, Primitives: primitive.All()})
	return VerifyReport(report), err
}
