// Package plant holds deliberately planted bugs: a checker that has never failed proves nothing.
// The product has none of them. The diffs in the directory bugs add a branch for each, which is off
// until a test enables it. The program overlay turns them into input for go build:
//
//	go run ./internal/test/plant/overlay
//	go test -tags plant -overlay .plant/overlay.json ./internal/test/sim -run '^TestPlanted$'
package plant
