package stream_test

import (
	"context"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

func Example() {
	node, err := floe.Open(floe.Config{}) // in memory; on disk with a DataDir
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, store := context.Background(), node.Stream("default")

	for _, city := range []string{"Berlin", "Lima", "Oslo"} {
		if _, err := store.Append(ctx, "visits", stream.Message{Key: "ada", Payload: []byte(city)}); err != nil {
			log.Fatal(err)
		}
	}
	records, err := store.Read(ctx, "visits")
	if err != nil {
		log.Fatal(err)
	}
	for _, rec := range records {
		fmt.Printf("%d: %s was in %s\n", rec.Offset, rec.Key, rec.Payload)
	}

	later, err := store.Read(ctx, "visits", stream.After(records[1].ID))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("behind the second there is %d: %s\n", len(later), later[0].Payload)
	// Output:
	// 1: ada was in Berlin
	// 2: ada was in Lima
	// 3: ada was in Oslo
	// behind the second there is 1: Oslo
}
