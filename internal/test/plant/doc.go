// Package plant holds bugs that are planted on purpose: a checker that has never failed proves
// nothing. The product has none of them. The diffs in the directory bugs add a branch for each,
// which is off until a test sets it; the program overlay makes of them what go build takes:
//
//	go run ./internal/test/plant/overlay
//	go test -tags plant -overlay .plant/overlay.json ./internal/test/sim -run '^TestPlanted$'
package plant
