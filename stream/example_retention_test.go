package stream_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// A stream applies its retention automatically. Trim removes more, or reports what it would remove.
func ExampleStore_Trim() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.Stream("default")

	if err := store.Create(ctx, "readings", stream.MaxAge(7*24*time.Hour), stream.MaxLen(100)); err != nil {
		log.Fatal(err)
	}
	readings := make([]stream.Message, 250)
	for i := range readings {
		readings[i].Payload = fmt.Append(nil, i)
	}
	if _, err := store.AppendMany(ctx, "readings", readings); err != nil {
		log.Fatal(err)
	}
	info, err := store.Get(ctx, "readings")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %d of %d\n", info.Retention, info.Records(), info.Appended)

	would, err := store.Trim(ctx, "readings", stream.MaxLen(10), stream.DryRun())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("would remove", would)
	last, err := store.Read(ctx, "readings", stream.Tail(), stream.Limit(2))
	if err != nil {
		log.Fatal(err)
	}
	for _, rec := range last {
		fmt.Printf("%s\n", rec.Payload)
	}
	// Output:
	// 7d, 100 records: 100 of 250
	// would remove 90
	// 248
	// 249
}
