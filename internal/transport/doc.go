// Package transport connects nodes and clients over HTTP/2, in clear text or with TLS.
//
// All traffic uses streams of frames. A stream is an HTTP/2 request: its body is one direction, and
// its response is the other. It stays open until one side ends it.
//
//	POST /floe/3/door      what goes through an engine.Door: many calls at once, answered in any order
//	POST /floe/3/raft      entries of raft, one way
//	POST /floe/3/pulse     heartbeats and all other messages of raft, one way
//	POST /floe/3/snapshot  one snapshot of a shard, then one answer
//
// A stream begins with a handshake; see handshake.go. Doors accept clients and nodes, and the other
// paths accept only nodes. Each node has a separate connection to every other node for each of the
// four paths, so neither a snapshot nor entries delay a heartbeat.
//
// The port faces the network, so all input is bounded before memory is allocated for it, and
// checked before it is used.
package transport
